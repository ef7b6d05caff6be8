"""The page: the same figures as everywhere else, nothing from elsewhere, and small."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmark.data_access import load_pairs
from leaderboard import notation
from leaderboard.board import Board, score_board
from leaderboard.render import render, sections
from leaderboard.site.kernels import browser_data
from leaderboard.site.page import render_page, write_site
from leaderboard.table import table_of
from tests.leaderboard.conftest import SPLITS, TRACKS, edit
from tests.leaderboard.page_reader import PageReader

LIMIT = 3_000_000
DATA = re.compile(r'<script type="application/gzip\+base64" id="kernel-data">(.*?)</script>', re.DOTALL)


@pytest.fixture(scope="module")
def table(board: Board) -> dict[str, Any]:
    return table_of(board)


@pytest.fixture(scope="module")
def page(board: Board, dataset: Path) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELCAST_DATA", str(dataset.parent))
        return render_page(board)


def _cells(row: Mapping[str, Any], metrics: list[str]) -> list[str]:
    """What a row has to say everywhere, from the unrounded figures of the JSON form alone."""
    figures = [notation.with_interval(row["metrics"][m]) for m in metrics]
    return [notation.rank(row["rank"]), row["name"], row["information"], *figures, notation.share(row["coverage"])]


def test_page_json_text_markdown_and_csv_agree_to_the_last_digit(table: dict[str, Any], page: str) -> None:
    stored = json.loads(json.dumps(table))
    boards = {(b.track, b.split): b for b in PageReader(page).boards}
    assert set(boards) == {(t, s) for t in TRACKS for s in SPLITS}
    text, markdown = render(stored).splitlines(), render(stored, "markdown").splitlines()
    tidy = {
        (r["name"], r["track"], r["split"], r["metric"]): r for r in csv.DictReader(io.StringIO(render(stored, "csv")))
    }
    for section in sections(stored):
        board = boards[section.track, section.split]
        assert board.caption == section.title
        assert [h.replace(" *", "") for h in board.head] == [h.replace(" *", "") for h in section.head]
        rows = [row for members in section.groups.values() for row in members]
        assert list(board.rows) == [row["name"] for row in rows]
        for row in rows:
            cells = _cells(row, list(section.metrics))
            assert board.rows[row["name"]] == cells
            assert "| " + " | ".join(cells) + " |" in markdown
            short = [c if section.head[i].endswith("*") else c.split(" [")[0] for i, c in enumerate(cells)]
            assert short in [re.split(r"  +", line) for line in text]
            for metric in section.metrics:
                cell = tidy[row["name"], section.track, section.split, metric]
                value = float(cell["value"]) if cell["value"] else None
                assert notation.number(value) == notation.number(row["metrics"][metric]["value"])


def test_the_page_needs_nothing_from_elsewhere(page: str) -> None:
    reader = PageReader(page)
    assert all(address.startswith("#") or address == "data:," for address in reader.addresses)
    assert "default-src 'none'" in page
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttpRequest|WebSocket", page)
    assert len(reader.ids) == len(set(reader.ids))
    views = {i.removeprefix("submission-") for i in reader.ids if i.startswith("submission-")}
    assert views == {"good", "twin", "poor", "tenth", "uniform", "oracle"}
    targets = {a for a in reader.addresses if a.startswith("#") and not a.startswith("#pair-")}
    assert {a[1:] for a in targets} <= set(reader.ids)


def test_a_retracted_submission_is_on_no_page_and_in_no_data(page: str, board: Board) -> None:
    mentions = [line for line in page.splitlines() if "withdrawn" in line]
    assert mentions and all("withdrawn is retracted: it read the labels." in line for line in mentions)
    assert "withdrawn" not in browser_data(board)["forecasts"]


def _unpacked(page: str) -> dict[str, Any]:
    (packed,) = DATA.findall(page)
    data = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert isinstance(data, dict)
    return data


def test_the_kernel_browser_has_every_pair_with_its_truth_and_forecasts(page: str, board: Board) -> None:
    data = _unpacked(page)
    pairs, names = data["pairs"], data["names"]
    at = {pair: i for i, pair in enumerate(pairs["pair_id"])}
    expected = [row for split in SPLITS for row in load_pairs(split, board.dataset).to_pylist()]
    assert set(at) == {row["pair_id"] for row in expected} and len(at) == len(expected)
    for row in expected:
        i = at[row["pair_id"]]
        assert data["sources"][pairs["parent_code"][i]] == row["parent_code"]
        assert data["sources"][pairs["child_code"][i]] == row["child_code"]
        assert names["task"][pairs["task"][i]] == row["task"] and names["split"][pairs["split"][i]] == row["split"]
        assert (pairs["speedup"][i] is None) == (row["speedup"] is None) == (data["label"][i] is None)
        if row["speedup"] is not None:
            assert pairs["speedup"][i] == pytest.approx(row["speedup"], rel=1e-5)
            assert np.argmax(data["forecasts"]["oracle"][i]) == np.argmax(data["label"][i])
    assert set(data["forecasts"]) == {"good", "twin", "poor", "tenth", "uniform", "oracle"}
    assert set(map(tuple, data["forecasts"]["uniform"])) == {(125,) * 8}
    answered = sum(p is not None for p in data["forecasts"]["tenth"])
    assert 0 < answered < len(at) / 4


def test_the_same_board_gives_the_same_page(page: str, board: Board, tmp_path: Path) -> None:
    assert write_site(board, tmp_path / "site").read_text() == page
    assert [p.name for p in (tmp_path / "site").iterdir()] == ["index.html"]


def test_text_of_a_submission_is_never_markup(dataset: Path, submissions: Path, tmp_path: Path) -> None:
    shutil.copytree(submissions / "good", tmp_path / "good")
    edit(tmp_path / "good", description='<script>alert("x")</script>', contact="a@b.test & <b>")
    page = render_page(score_board(dataset.name, 0, submissions=tmp_path))
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page and "a@b.test &amp; &lt;b&gt;" in page


def test_an_empty_board_is_a_page_too(dataset: Path, tmp_path: Path) -> None:
    assert "No submission for dataset synthetic." in render_page(score_board(dataset.name, 0, submissions=tmp_path))


@pytest.mark.slow
def test_a_dozen_submissions_stay_under_the_limit(dataset: Path, submissions: Path, tmp_path: Path) -> None:
    for i in range(12):
        shutil.copytree(submissions / "good", tmp_path / f"good-{i}")
        edit(tmp_path / f"good-{i}", name=f"good-{i}")
    page = render_page(score_board(dataset.name, 20, submissions=tmp_path))
    (packed,) = DATA.findall(page)
    assert len(page.encode()) - len(packed) < LIMIT / 2  # a real dataset has more tasks, but the same figures
