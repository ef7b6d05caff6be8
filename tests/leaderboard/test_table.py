"""The leaderboard: every score recomputed, one rule for who is ranked, a stable order, three ways to print."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from benchmark.bins import bin_mass
from benchmark.data_access import load_labels, load_queries
from benchmark.forecasts import ForecastError, write_forecasts
from benchmark.query import Forecast
from leaderboard.submission import SubmissionError, find_submissions
from leaderboard.table import build_table, render
from tests.factory import make_dataset

SPLITS = ("test", "test_unseen_task")
TRACKS = ("pairs", "pool")
MANIFEST = {
    "kind": "surrogate", "information": "source", "description": "a test", "command": "make it",
    "training_data": "none", "status": "recomputed",
}  # fmt: skip


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("data"), unseen=True, kernels_per_search=16)


@pytest.fixture(autouse=True)
def _find_data(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELCAST_DATA", str(dataset.parent))


def _submit(folder: Path, dataset: Path, noise: float | None, keep: float = 1.0, **manifest: Any) -> None:
    """Write a submission that sees the truth through noise, or is uniform, and answers a share of the queries."""
    for track in TRACKS:
        queries, forecasts = [], []
        rng = np.random.default_rng(0)
        for split in SPLITS:
            found = load_queries(track, split, dataset=dataset.name)
            speedup = load_labels(track, split, dataset=dataset.name).column("speedup").to_pylist()
            for query, s in list(zip(found, speedup, strict=True))[: max(1, round(keep * len(found)))]:
                seen = np.log2(s or 1.0) + rng.normal(0, noise or 0.0)
                p = [1 / 8] * 8 if noise is None else bin_mass(seen, max(noise, 0.05))[0]
                queries.append(query)
                forecasts.append(Forecast(p))
        metadata = {"dataset": dataset.name, "track": track, "surrogate": folder.name, "configuration": {}}
        write_forecasts(folder / f"{track}.parquet", queries, forecasts, metadata)
    content = {"name": folder.name, "dataset": dataset.name, **MANIFEST, **manifest}
    (folder / "submission.yaml").write_text(yaml.safe_dump(content))


@pytest.fixture(scope="module")
def submissions(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("submissions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELCAST_DATA", str(dataset.parent))
        _submit(root / "good", dataset, 0.3)
        _submit(root / "poor", dataset, 3.0, kind="baseline")
        _submit(root / "tenth", dataset, 0.0, keep=0.1)
        _submit(root / "uniform", dataset, None, kind="chance")
        _submit(root / "oracle", dataset, 0.0, kind="oracle", information="measured")
        _submit(root / "withdrawn", dataset, 0.0, status="retracted", reason="it read the labels")
        _submit(root / "elsewhere", dataset, 0.3)
    path = root / "elsewhere" / "submission.yaml"
    path.write_text(path.read_text().replace(f"dataset: {dataset.name}", "dataset: another"))
    shutil.copytree(root / "good", root / "twin")
    path = root / "twin" / "submission.yaml"
    path.write_text(path.read_text().replace("name: good", "name: twin"))
    return root


@pytest.fixture(scope="module")
def table(dataset: Path, submissions: Path) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELCAST_DATA", str(dataset.parent))
        return build_table(dataset.name, resamples=300, submissions=submissions)


def _rows(table: dict[str, Any], track: str = "pairs", split: str = "test") -> dict[str, dict[str, Any]]:
    return {r["name"]: r for r in table["rows"] if (r["track"], r["split"]) == (track, split)}


def test_every_track_and_split_has_every_submission_of_the_dataset(table: dict[str, Any]) -> None:
    names = {"good", "twin", "poor", "tenth", "uniform", "oracle", "withdrawn"}
    for track in TRACKS:
        for split in SPLITS:
            assert set(_rows(table, track, split)) == names
    assert json.loads(json.dumps(table, allow_nan=False)) == table


def test_groups_stand_apart_and_competitors_are_in_order(table: dict[str, Any]) -> None:
    order = list(_rows(table))
    assert order == ["good", "twin", "poor", "tenth", "uniform", "oracle", "withdrawn"]
    groups = [r["group"] for r in _rows(table).values()]
    assert groups == ["competitors"] * 4 + ["references"] * 2 + ["retracted"]


def test_identical_submissions_share_rank_and_figures(table: dict[str, Any]) -> None:
    for track in TRACKS:
        rows = _rows(table, track)
        assert rows["good"]["rank"] == rows["twin"]["rank"] == 1
        assert rows["good"]["metrics"] == rows["twin"]["metrics"]


def test_few_searches_tell_no_competitors_apart(table: dict[str, Any]) -> None:
    rows = _rows(table)
    assert rows["poor"]["metrics"]["ap_141"]["value"] < rows["good"]["metrics"]["ap_141"]["value"]
    assert rows["poor"]["rank"] == 1  # four searches: no difference can be significant


def test_only_an_eligible_competitor_has_a_rank(table: dict[str, Any]) -> None:
    for track in TRACKS:
        for row in _rows(table, track).values():
            assert (row["rank"] is None) == (row["unranked"] is not None)
            assert (row["rank"] is not None) == (row["name"] in {"good", "twin", "poor"})
    rows = _rows(table)
    assert "under 95%" in rows["tenth"]["unranked"]
    assert rows["oracle"]["unranked"] == "a reference row (oracle)"
    assert rows["withdrawn"]["unranked"] == "retracted: it read the labels"


def test_a_forecaster_that_answers_only_a_tenth_does_not_change_other_ranks(
    table: dict[str, Any], dataset: Path, submissions: Path, tmp_path: Path
) -> None:
    for name in ("good", "poor"):
        shutil.copytree(submissions / name, tmp_path / name)
    alone = _rows(build_table(dataset.name, 300, submissions=tmp_path, tracks=["pairs"]))
    assert alone["good"]["metrics"] == _rows(table)["good"]["metrics"]
    assert [alone[n]["rank"] for n in ("good", "poor")] == [_rows(table)[n]["rank"] for n in ("good", "poor")]


def test_beating_the_noise_ceiling_is_flagged(dataset: Path, submissions: Path, tmp_path: Path) -> None:
    shutil.copytree(submissions / "good", tmp_path / "good")
    _submit(tmp_path / "ceiling", dataset, 3.0, kind="ceiling", information="measured")
    table = build_table(dataset.name, 100, submissions=tmp_path, tracks=["pairs"])
    rows = _rows(table)
    assert rows["good"]["flag"] == "beats the noise ceiling"
    assert rows["ceiling"]["flag"] is None
    assert "good beats the noise ceiling." in render(table)


def test_text_and_markdown_show_values_with_intervals_and_keep_columns_aligned(table: dict[str, Any]) -> None:
    text = render(table)
    value = _rows(table)["good"]["metrics"]["ap_141"]
    assert f"{value['value']:.3f} [{value['low']:.3f}, {value['high']:.3f}]" in text
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("rank"))
    at = lines[head].index("sees")
    assert all(line[at - 2 : at] == "  " and line[at] != " " for line in lines[head + 1 : head + 5])
    uniform = _rows(table)["uniform"]["metrics"]
    chance, base = uniform["ap_141"]["value"], uniform["base_rate_141"]["value"]
    assert lines[0].endswith(f"(base rate {base:.3f}; ap_141 of a random order {chance:.3f})")
    assert "tenth is not ranked: it answers" in text
    assert "withdrawn is retracted: it read the labels." in text
    markdown = render(table, "markdown").splitlines()
    cells = {line.count(" | ") for line in markdown if line.startswith("| ")}
    assert len(cells) == 2  # one count for pairs, one for the pool
    assert markdown[0].startswith("### ")


def test_csv_is_tidy_and_loses_nothing(table: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(render(table, "csv"))))
    assert len(rows) == sum(len(r["metrics"]) for r in table["rows"])
    found = next(r for r in rows if (r["name"], r["track"], r["split"], r["metric"]) == ("good", "pool", "test", "rps"))
    assert float(found["value"]) == _rows(table, "pool")["good"]["metrics"]["rps"]["value"]


def test_an_unknown_format_and_an_empty_board(table: dict[str, Any], dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown format 'html'; expected one of text, markdown, csv"):
        render(table, "html")
    empty = build_table(dataset.name, 10, submissions=tmp_path)
    assert empty["rows"] == []
    assert render(empty) == "No submission for dataset synthetic.\n"


@pytest.mark.parametrize(("change", "message"), [
    ({"kind": "winner"}, "field 'kind': found 'winner', expected baseline, surrogate"),
    ({"status": "retracted"}, "field 'reason': a retracted submission says why"),
    ({"name": "other"}, "field 'name': found 'other', expected the folder's name"),
    ({"description": ""}, "field 'description': found '', expected text"),
    ({"score": 1.0}, "unknown field 'score'"),
])  # fmt: skip
def test_a_bad_manifest_is_one_clear_line(
    submissions: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    shutil.copytree(submissions / "good", tmp_path / "good")
    path = tmp_path / "good" / "submission.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **change}))
    with pytest.raises(SubmissionError, match=message) as caught:
        find_submissions(tmp_path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_other_faults_of_a_submission(submissions: Path, dataset: Path, tmp_path: Path) -> None:
    folder = tmp_path / "good"
    shutil.copytree(submissions / "good", folder)
    (folder / "pairs.parquet").write_bytes(b"PAR1")
    with pytest.raises(ForecastError, match=r"pairs\.parquet: not Parquet"):
        build_table(dataset.name, 10, submissions=tmp_path)
    for track in TRACKS:
        (folder / f"{track}.parquet").unlink()
    with pytest.raises(SubmissionError, match="no forecast file"):
        find_submissions(tmp_path)
    (folder / "submission.yaml").write_text("a: [")
    with pytest.raises(SubmissionError, match="not YAML"):
        find_submissions(tmp_path)
    (folder / "submission.yaml").unlink()
    with pytest.raises(SubmissionError, match="every submission needs one"):
        find_submissions(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        find_submissions(tmp_path / "absent")
