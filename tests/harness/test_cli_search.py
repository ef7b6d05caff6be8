"""`kernelcast search`: one line and exit code 2 for bad input, one JSON object for a finished search."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import harness.search.__main__ as command
from harness.cli import main
from tests.harness.search.table_backend import TableBackend


@contextmanager
def table(name: str, workers: int) -> Iterator[TableBackend]:
    yield TableBackend()


def run(*arguments: Any) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["search", *map(str, arguments)])
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--task", "rms_nrm"], "unknown task 'rms_nrm'. Did you mean 'rms_norm'?"),
        (["run", "--task", "rms_norm", "--split", "tests"], "has no seeds for split 'tests'"),
        (["run", "--task", "rms_norm", "--budget", "0"], "budget is 0, expected at least 1"),
        (["run", "--task", "rms_norm", "--backend", "tpu"], "unknown backend 'tpu'"),
        (["run", "--task", "rms_norm", "--minutes", "nan"], "minutes is nan, expected a finite number above 0"),
        (["run", "--task", "rms_norm", "--minutes", "0"], "minutes is 0.0, expected a finite number above 0"),
        (["run", "--task", "rms_norm", "--workers", "0"], "workers is 0, expected at least 1"),
        (["campaign", "missing.toml"], "missing.toml"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(*arguments, "--out", tmp_path) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert message in captured.err


@pytest.mark.parametrize("out", ["/proc/searches", "file/searches", "file"])
def test_a_folder_that_cannot_be_made_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    monkeypatch.setattr(command, "open_backend", None)
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert run("run", "--task", "rms_norm", "--backend", "cpu", "--out", out) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"'{out}' cannot be written" in line and "Errno" not in line
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_without_times_no_speed_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def untimed(name: str, workers: int) -> Iterator[TableBackend]:
        backend = TableBackend()
        backend.session["timing_method"] = "none"
        yield backend

    for opener, shown, absent in ((untimed, "not timed", "x"), (table, "best rms_norm-train-0=", "not timed")):
        monkeypatch.setattr(command, "open_backend", opener)
        assert run("run", "--task", "rms_norm", "--budget", "7", "--out", tmp_path / shown) == 0
        last = capsys.readouterr().err.splitlines()[-1]
        assert shown in last and absent not in last.rpartition("ok, ")[2]


def test_a_search_prints_one_json_object_and_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "open_backend", table)
    arguments = ["run", "--task", "rms_norm", "--budget", "7", "--out", tmp_path, "--json", "--quiet"]
    rows = []
    for _ in range(2):
        assert run(*arguments) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        rows.append(json.loads(captured.out)["rows"])
    assert rows[0] == rows[1]
    assert rows[0] == [{"search_id": "rms_norm-train-0", "reason": "budget", "measured": 7, "error": None}]


def test_a_damaged_log_fails_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "open_backend", table)
    (tmp_path / "rms_norm-train-0").mkdir()
    (tmp_path / "rms_norm-train-0" / "events.jsonl").write_text("{}\n", encoding="utf-8")
    assert run("run", "--task", "rms_norm", "--out", tmp_path, "--quiet") == 1
    assert "line 1: expected an object with 'index' and 'kind'" in capsys.readouterr().out
