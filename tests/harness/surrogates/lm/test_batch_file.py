"""Batches as files, through the command line: prompts out, answers in, matched by id and never by order."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from benchmark import read_forecasts
from benchmark.data_access import load_queries
from harness.cli import main

from .conftest import arguments, completion

MODEL = "openai=m?temperature=0.5"
DATASET = "synthetic"


def run(*options: str | Path) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["forecast", MODEL, "--dataset", DATASET, "--track", "pairs", "--split", "test", *map(str, options)])
    return int(stopped.value.code or 0)


def certain(b: int) -> list[int]:
    return [int(i == b) for i in range(8)]


@pytest.fixture
def requests(tmp_path: Path, synthetic_dataset: Path) -> list[dict[str, Any]]:
    assert run("--batch-export", tmp_path / "prompts.jsonl", "--limit", "8") == 0
    return [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]


def answer(request: dict[str, Any], b: int) -> dict[str, Any]:
    body = completion(calls=[("submit_speedup_forecast", arguments(certain(b)))])
    return {
        "id": f"batch-{b}", "custom_id": request["custom_id"], "error": None,
        "response": {"status_code": 200, "request_id": "r", "body": body},
    }  # fmt: skip


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_the_prompts_are_requests_of_the_batch_format(requests: list[dict[str, Any]]) -> None:
    assert len(requests) == 8
    for request in requests:
        assert set(request) == {"custom_id", "method", "url", "body"}
        assert (request["method"], request["url"]) == ("POST", "/v1/chat/completions")
        assert len(request["custom_id"]) <= 64
        assert request["body"]["model"] == "m" and request["body"]["temperature"] == 0.5
        assert request["body"]["tools"] and len(request["body"]["messages"]) == 2
    assert len({request["custom_id"] for request in requests}) == 8


def test_answers_are_matched_by_id_and_what_is_missing_or_failed_is_an_error(
    requests: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[Any] = [answer(request, b) for b, request in enumerate(requests)]
    failed = {**lines[6], "response": None, "error": {"code": "batch_expired", "message": "late"}}
    lines = [*lines[:6], failed, lines[2], "", {**lines[0], "custom_id": "of-another-batch"}]
    random.Random(0).shuffle(lines)
    path = write(tmp_path / "answers.jsonl", lines)
    assert run("--batch-import", path, "--limit", "8", "--out", tmp_path / "f.parquet", "--json") == 0
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert (report["queries"], report["answered"]) == (8, 6)
    assert set(report["problems"]) == {
        "the file has no answer", 'no answer in the file: {"code": "batch_expired", "message": "late"}'
    }  # fmt: skip
    assert "answers to 7 of 8 queries; 1 other ids passed over" in err
    forecasts = read_forecasts(tmp_path / "f.parquet")
    by_id = dict(zip(forecasts.query_id, forecasts.probabilities, strict=True))
    for b, request in enumerate(requests[:6]):
        assert by_id[request["custom_id"].rpartition("-")[0]].argmax() == b
    assert json.loads(forecasts.metadata["configuration"])["prompt"].startswith("forecast-1@")


BAD = [
    ("no JSON", ["{"], "line 1: no JSON object with a custom_id"),
    ("the prompts", "prompts", "is this the file of requests"),
    ("no id", [{"response": {}}], "line 1: no JSON object with a custom_id"),
    ("ids of another prompt", [{"custom_id": "x", "response": {}}], "none of its 1 ids belongs to these queries"),
]


@pytest.mark.parametrize(("lines", "words"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_a_file_that_is_no_answer_is_one_line(
    requests: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: Any, words: str
) -> None:
    path = write(tmp_path / "answers.jsonl", requests if lines == "prompts" else lines)
    assert run("--batch-import", path, "--limit", "8", "--out", tmp_path / "f.parquet") == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("kernelcast: ") and words in error
    assert not (tmp_path / "f.parquet").exists()


def test_two_different_answers_to_one_prompt_are_refused(
    requests: list[dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "answers.jsonl", [answer(requests[0], 1), answer(requests[0], 2)])
    assert run("--batch-import", path, "--out", tmp_path / "f.parquet") == 2
    assert "line 2: another answer to" in capsys.readouterr().err


def test_answers_to_another_prompt_are_refused(requests: list[dict[str, Any]], tmp_path: Path) -> None:
    path = write(tmp_path / "answers.jsonl", [answer(requests[0], 1)])
    with pytest.raises(SystemExit) as stopped:
        main([
            "forecast", "openai=other", "--dataset", DATASET, "--track", "pairs", "--batch-import", str(path),
            "--out", str(tmp_path / "f"),
        ])  # fmt: skip
    assert stopped.value.code == 2


@pytest.mark.parametrize(
    "options",
    [["--batch-export", "b.jsonl", "--out", "f.parquet"], [], ["--batch-import", "absent.jsonl", "--out", "f.parquet"]],
)
def test_options_that_do_not_go_together(
    synthetic_dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*options) == 2
    assert not list(tmp_path.glob("f.parquet*")) and not (tmp_path / "b.jsonl").exists()


def test_only_a_remote_model_has_prompts(synthetic_dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(
            [
                "forecast",
                "uniform",
                "--dataset",
                DATASET,
                "--track",
                "pairs",
                "--batch-export",
                str(tmp_path / "b.jsonl"),
            ]
        )
    assert stopped.value.code == 2


def test_a_file_that_exists_is_kept(requests: list[dict[str, Any]], tmp_path: Path) -> None:
    assert run("--batch-export", tmp_path / "prompts.jsonl") == 2
    assert run("--batch-export", tmp_path / "prompts.jsonl", "--overwrite") == 0
    assert len((tmp_path / "prompts.jsonl").read_text().splitlines()) == len(load_queries("pairs", "test", DATASET))
