"""The committed record: written once, read back, and compared figure by figure."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from leaderboard.board import Board
from leaderboard.record import BEGIN, END, drift, read_record, readme_drift, readme_path, record_path, write_record
from leaderboard.render import render
from leaderboard.submission import SubmissionError
from leaderboard.table import table_of


@pytest.fixture(scope="module")
def table(board: Board) -> dict[str, Any]:
    return table_of(board)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of submissions, with a README two folders above."""
    submissions = tmp_path / "leaderboard" / "submissions"
    submissions.mkdir(parents=True)
    (tmp_path / "README.md").write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    return submissions


def test_what_is_recorded_does_not_differ(table: dict[str, Any], folder: Path) -> None:
    assert write_record(table, folder) == [record_path(folder), readme_path(folder)]
    assert write_record(table, folder) == []
    assert drift(read_record(folder), table) == readme_drift(table, folder) == []
    readme = readme_path(folder).read_text()
    assert render(table).rstrip() in readme and readme.startswith("before\n") and readme.endswith("\nafter\n")
    assert len(record_path(folder).read_text().splitlines()) > len(table["rows"])


def _changed(table: dict[str, Any], **changes: Any) -> dict[str, Any]:
    other = copy.deepcopy(table)
    other["rows"][0].update(changes)
    return other


def test_every_kind_of_drift_is_named(table: dict[str, Any]) -> None:
    name, track, split = (table["rows"][0][key] for key in ("name", "track", "split"))
    place = f"{name}, {track}, {split}"
    value = table["rows"][0]["metrics"]["rps"]["value"]
    moved = copy.deepcopy(table)
    moved["rows"][0]["metrics"]["rps"]["value"] += 1e-5
    assert drift(table, moved) == [f"{place}, rps value: recorded {value}, now {value + 1e-5}"]
    moved["rows"][0]["metrics"]["rps"]["value"] = value + 1e-9
    assert drift(table, moved) == []
    assert drift(table, _changed(table, rank=7)) == [f"{place}, rank: recorded 1, now 7"]
    assert drift(table, {**table, "revision": "x"}) == [f"revision: recorded {table['revision']}, now x"]
    fewer = {**table, "rows": table["rows"][1:]}
    assert drift(table, fewer) == [f"{place}: recorded, and not in the table"]
    assert drift(fewer, table) == [f"{place}: not recorded"]
    assert drift(table, {**table, "rows": table["rows"][::-1]}) == ["the rows stand in another order"]
    undefined = copy.deepcopy(table)
    undefined["rows"][0]["metrics"]["rps"].update(value=None, reason="none")
    assert len(drift(table, undefined)) == 2


def test_a_readme_that_shows_another_figure_is_named_by_line(table: dict[str, Any], folder: Path) -> None:
    write_record(table, folder)
    path = readme_path(folder)
    path.write_text(path.read_text().replace("good", "best", 1))
    (line,) = readme_drift(table, folder)
    assert line.startswith("README.md, line 3 of the table: shows '1     best")
    path.write_text("no table")
    assert readme_drift(table, folder) == [f"README.md: has no lines {BEGIN} and {END}"]
    path.unlink()
    assert readme_drift(table, folder) == []


@pytest.mark.parametrize("content", [None, "[", "[]", '{"rows": [{}]}', '{"rows": 1}'])
def test_a_broken_record_says_how_to_write_it(folder: Path, content: str | None) -> None:
    if content is not None:
        record_path(folder).write_text(content)
    with pytest.raises(SubmissionError, match="`kernelcast leaderboard --record` writes it"):
        read_record(folder)


def test_a_record_holds_no_nan(table: dict[str, Any], folder: Path) -> None:
    write_record(table, folder)
    text = record_path(folder).read_text()
    assert json.loads(text, parse_constant=lambda name: pytest.fail(name)) == table
