"""`kernelcast compare`: names, files and folders, what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness.cli import app
from leaderboard.submission import SUBMISSIONS


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["compare", *arguments, "--resamples", "200", "--quiet"])


def _message(*arguments: str) -> str:
    found = _run(*arguments)
    assert isinstance(found.exception, ValueError), found.output
    assert "\n" not in str(found.exception)
    return str(found.exception)


def test_two_committed_submissions_are_compared_on_every_metric_and_task() -> None:
    found = _run("gbdt", "base-rate", "--json")
    assert found.exit_code == 0, found.output
    result = json.loads(found.stdout)
    assert (result["first"], result["second"], result["resamples"]) == ("gbdt", "base-rate", 200)
    rows = {(r["track"], r["split"], r["task"], r["metric"]): r for r in result["rows"]}
    headline = rows["pairs", "test", None, "ap_141"]
    assert headline["value"] == pytest.approx(headline["first"] - headline["second"])
    assert headline["low"] <= headline["value"] <= headline["high"]
    assert 0 < headline["p_value"] <= 1
    assert {r["task"] for r in result["rows"]} >= {None, "rms_norm"}
    assert all(r["p_value"] is not None or r["reason"] for r in result["rows"])
    assert rows["pairs", "test", None, "ece"]["first_is_better"] is None
    assert {r["track"] for r in result["rows"]} == {"pairs", "pool"}


def test_the_other_way_round_is_the_negative_and_itself_is_equal() -> None:
    there = json.loads(_run("gbdt", "base-rate", "--track", "pairs", "--json").stdout)["rows"]
    back = json.loads(_run("base-rate", "gbdt", "--track", "pairs", "--json").stdout)["rows"]
    for one, other in zip(there, back, strict=True):
        assert one["metric"] == other["metric"]
        assert one["value"] is None or one["value"] == -other["value"]
        assert one["p_value"] == other["p_value"]
    itself = json.loads(_run("gbdt", str(SUBMISSIONS / "gbdt"), "--track", "pool", "--json").stdout)["rows"]
    assert {r["value"] for r in itself} <= {0.0, None}
    assert {r["p_value"] for r in itself} <= {1.0, None}


def test_files_folders_and_names_mean_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "pairs.parquet").write_bytes((SUBMISSIONS / "gbdt" / "pairs.parquet").read_bytes())
    file = folder / "pairs.parquet"
    forms = ("gbdt", str(folder), str(file))
    found = [json.loads(_run(form, "uniform", "--track", "pairs", "--json").stdout)["rows"] for form in forms]
    assert found[0] == found[1] == found[2]


def test_the_text_shows_both_values_the_difference_and_who_is_better() -> None:
    text = _run("gbdt", "uniform", "--track", "pairs").stdout
    lines = text.splitlines()
    assert lines[0].startswith("gbdt against uniform: h200-v0, track pairs, split test")
    (headline,) = [line for line in lines if line.startswith("ap_141 *")]
    assert headline.split()[-1] == "gbdt" and "[" in headline
    assert any(line.startswith("rms_norm") for line in lines)
    assert "200 cluster resamples, seed 0; each p-value stands for itself" in text


def test_what_cannot_be_compared_is_one_line(tmp_path: Path) -> None:
    assert "(did you mean 'gbdt'?); committed: base-rate, " in _message("gbtd", "uniform")
    assert "track 'replay' is not scored from forecasts" in _message("gbdt", "uniform", "--track", "replay")
    assert f"{tmp_path} holds no forecasts" in _message("gbdt", str(tmp_path))
    (tmp_path / "pool.parquet").write_bytes((SUBMISSIONS / "gbdt" / "pool.parquet").read_bytes())
    assert "has no forecasts for track 'pairs'; it has pool" in _message("gbdt", str(tmp_path), "--track", "pairs")
    pairs = str(SUBMISSIONS / "gbdt" / "pairs.parquet")
    assert "no track in common" in _message(pairs, str(tmp_path))
    assert "no forecasts of train in both" in _message("gbdt", "uniform", "--split", "train")
    assert "made for dataset" in _message("gbdt", "uniform", "--dataset", "h100-v9")


def test_a_retracted_submission_is_not_compared(tmp_path: Path) -> None:
    import yaml

    folder = tmp_path / "gone"
    folder.mkdir()
    (folder / "pairs.parquet").write_bytes((SUBMISSIONS / "gbdt" / "pairs.parquet").read_bytes())
    manifest = yaml.safe_load((SUBMISSIONS / "gbdt" / "submission.yaml").read_text())
    manifest |= {"name": "gone", "status": "retracted", "reason": "it read the labels"}
    (folder / "submission.yaml").write_text(yaml.safe_dump(manifest))
    assert _message("gbdt", str(folder)) == "gone is not compared: retracted: it read the labels"
