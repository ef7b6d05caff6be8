"""The leaderboard: every score recomputed, one rule for who is ranked, a stable order, four ways to print."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmark.forecasts import ForecastError, read_forecasts
from leaderboard import notation
from leaderboard.board import Board
from leaderboard.render import render
from leaderboard.submission import SubmissionError, find_submissions, read_submission, standing
from leaderboard.table import COLUMNS, build_table, table_of
from tests.leaderboard.conftest import SPLITS, TRACKS, edit, write_submission


@pytest.fixture(scope="module")
def table(board: Board) -> dict[str, Any]:
    return table_of(board)


def _rows(table: dict[str, Any], track: str = "pairs", split: str = "test") -> dict[str, dict[str, Any]]:
    return {r["name"]: r for r in table["rows"] if (r["track"], r["split"]) == (track, split)}


def test_every_track_and_split_has_every_submission_of_the_dataset(table: dict[str, Any]) -> None:
    names = {"good", "twin", "poor", "tenth", "uniform", "oracle"}
    for track in TRACKS:
        for split in SPLITS:
            assert set(_rows(table, track, split)) == names
    assert json.loads(json.dumps(table, allow_nan=False)) == table


def test_groups_stand_apart_and_competitors_are_in_order(table: dict[str, Any]) -> None:
    order = list(_rows(table))
    assert order == ["good", "twin", "poor", "tenth", "uniform", "oracle"]
    groups = [r["group"] for r in _rows(table).values()]
    assert groups == ["competitors"] * 4 + ["references"] * 2


def test_a_retracted_submission_is_in_no_rank_and_no_row_and_its_reason_stays(table: dict[str, Any]) -> None:
    assert table["retracted"] == [{"name": "withdrawn", "reason": "it read the labels"}]
    for format in ("text", "markdown", "latex"):
        lines = [line for line in render(table, format).splitlines() if "withdrawn" in line]
        assert lines and all("withdrawn is retracted: it read the labels." in line for line in lines)
    assert "withdrawn" not in render(table, "csv")


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
    write_submission(tmp_path / "ceiling", dataset, 3.0, kind="ceiling", information="measured")
    table = build_table(dataset.name, 100, submissions=tmp_path, tracks=["pairs"])
    rows = _rows(table)
    assert rows["good"]["flag"] == "beats the noise ceiling"
    assert rows["ceiling"]["flag"] is None
    assert "good: beats the noise ceiling." in render(table)


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
    with pytest.raises(ValueError, match="unknown format 'html'; expected one of text, markdown, csv, latex"):
        render(table, "html")
    empty = build_table(dataset.name, 10, submissions=tmp_path)
    assert empty["rows"] == []
    assert render(empty) == "No submission for dataset synthetic.\n"


@pytest.mark.parametrize(("change", "message"), [
    ({"kind": "winner"}, "field 'kind': found 'winner', expected baseline, surrogate"),
    ({"status": "retracted"}, "field 'reason': a retracted submission says why"),
    ({"name": "other"}, "field 'name': found 'other', expected the folder's name"),
    ({"description": ""}, "field 'description': found '', expected text"),
    ({"score": 1.0}, "field 'score': a submission does not score itself: scores are recomputed from the forecasts"),
    ({"ap_141": 0.9}, "field 'ap_141': a submission does not score itself"),
    ({"colour": "blue"}, "unknown field 'colour'; expected name, kind"),
    ({"contamination": None}, "field 'contamination': found None, expected text"),
    ({"cost": 3}, "field 'cost': found 3, expected text"),
    ({"name": "../good"}, r"field 'name': found '../good', expected up to 100 letters"),
])  # fmt: skip
def test_a_bad_manifest_is_one_clear_line(
    submissions: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    shutil.copytree(submissions / "good", tmp_path / "good")
    edit(tmp_path / "good", **change)
    path = tmp_path / "good" / "submission.yaml"
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


def test_latex_is_whole_and_escaped(table: dict[str, Any]) -> None:
    text = render(table, "latex")
    value = _rows(table)["good"]["metrics"]["ap_141"]
    assert f"{notation.number(value['value'])} {{\\scriptsize {notation.interval(value)}}}" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 4
    columns = len(COLUMNS["pairs"]) + 4
    row = next(line for line in text.splitlines() if line.startswith("1 & good"))
    assert row.count(" & ") == columns - 1 and row.endswith(r"\\")
    assert r"ap\_141 *" in text and r"100.0\%" in text
    assert not [line for line in text.splitlines() if "_" in line.replace(r"\_", "")]


def test_a_mark_points_at_one_row_of_each_section(table: dict[str, Any]) -> None:
    plain, marked = render(table).splitlines(), render(table, mark="poor").splitlines()
    assert len(plain) == len(marked)
    assert [line for line in marked if line.startswith("> ")] == [f"> {p}" for p in plain if " poor " in p]


def test_one_function_decides_who_stands_where(submissions: Path, table: dict[str, Any]) -> None:
    for submission in find_submissions(submissions):
        for row in (r for r in table["rows"] if r["name"] == submission.name):
            place = standing(submission, row["coverage"])
            assert (row["group"], row["rank"] is not None, row["unranked"]) == (place.group, place.ranked, place.reason)
    assert standing(read_submission(submissions / "withdrawn")).group is None
    assert standing(read_submission(submissions / "good"), 0.949).ranked is False


def test_shuffled_rows_and_other_file_names_change_no_figure(
    table: dict[str, Any], dataset: Path, submissions: Path, tmp_path: Path
) -> None:
    import numpy as np
    import pyarrow.parquet as pq

    for name, other in (("poor", "aaa"), ("good", "zzz"), ("twin", "mmm")):
        shutil.copytree(submissions / name, tmp_path / other)
        edit(tmp_path / other, name=other)
        for file in (tmp_path / other).glob("*.parquet"):
            rows = pq.read_table(file)
            order = np.random.default_rng(1).permutation(rows.num_rows)
            pq.write_table(rows.take(order).replace_schema_metadata(rows.schema.metadata), file)
            assert (
                read_forecasts(file).query_id.tolist()
                != read_forecasts(submissions / name / file.name).query_id.tolist()
            )
    shuffled = build_table(dataset.name, 300, submissions=tmp_path)
    for track in TRACKS:
        for split in SPLITS:
            before, after = _rows(table, track, split), _rows(shuffled, track, split)
            for name, other in (("poor", "aaa"), ("good", "zzz"), ("twin", "mmm")):
                assert before[name]["metrics"] == after[other]["metrics"]
                assert before[name]["rank"] == after[other]["rank"]


def test_forecasts_for_another_revision_are_scored_and_flagged(
    dataset: Path, submissions: Path, tmp_path: Path, table: dict[str, Any]
) -> None:
    shutil.copytree(submissions / "good", tmp_path / "good")
    edit(tmp_path / "good", revision="0000")
    (row, *_) = build_table(dataset.name, 0, submissions=tmp_path)["rows"]
    assert row["flag"] == f"made for revision 0000 of the dataset, which is now {table['revision']}"


def test_what_forecasts_took_is_the_mean_of_what_the_file_says(table: dict[str, Any]) -> None:
    row = _rows(table)["good"]
    assert (row["seconds"], row["input_tokens"], row["output_tokens"]) == (None, None, None)
