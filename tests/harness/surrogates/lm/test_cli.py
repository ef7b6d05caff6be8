"""`kernelcast forecast openai=...` against a loopback server: one clear line when it fails, and going on afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmark import read_forecasts
from harness.cli import main

from .conftest import Answer, Script, Server, completion, good

pytest.importorskip("openai")
Serve = Callable[[Script], Server]


def run(server: Server, out: Path, *options: str) -> int:
    expression = f"openai=m?base_url={server.base_url}&retries=0"
    with pytest.raises(SystemExit) as stopped:
        main([
            "forecast", expression, "--dataset", "synthetic", "--track", "pairs", "--limit", "6", "--out", str(out),
            *options,
        ])  # fmt: skip
    return int(stopped.value.code or 0)


def test_an_endpoint_that_refuses_ends_in_one_line_and_the_same_command_continues(
    serve: Serve, synthetic_dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = [True]

    def script(n: int, request: dict[str, Any]) -> Answer:
        return Answer({"error": {"message": "revoked"}}, 401) if closed[0] and n >= 3 else Answer(good())

    server, out = serve(script), tmp_path / "f.parquet"
    # One at a time: a call that is still under way when another is refused would be asked for again.
    assert run(server, out, "--quiet", "--concurrency", "1") == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert [line for line in lines if "refuses the key" in line and line.startswith("kernelcast: ")] and len(lines) <= 2
    assert not out.exists()
    closed[0] = False
    before = len(server.requests)
    assert run(server, out, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["queries"], report["answered"]) == (6, 6)
    assert report["answered_before"] == 3
    assert len(server.requests) - before == 3


def test_the_forecast_file_names_the_prompt_and_holds_tokens_and_the_log_what_was_said(
    serve: Serve, synthetic_dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, out = serve(lambda n, request: Answer(completion("Faster.") if n == 0 else good())), tmp_path / "f.parquet"
    assert run(server, out) == 0
    assert "replies 6, input_tokens 600, output_tokens 120" in capsys.readouterr().err
    forecasts = read_forecasts(out)
    configuration = json.loads(forecasts.metadata["configuration"])
    assert configuration["target"] == "openai=m" and configuration["prompt"].startswith("forecast-1@")
    assert sorted(forecasts.status.tolist()) == ["ok"] * 5 + ["unparsed"]
    assert forecasts.input_tokens.tolist() == [100.0] * 6
    (log,) = tmp_path.glob("*.answers.jsonl")
    texts = [json.loads(line)["raw"][0].get("text") for line in log.read_text().splitlines()]
    assert texts.count("Faster.") == 1
    assert "sk-secret" not in log.read_text()
