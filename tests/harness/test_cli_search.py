"""`kernelcast search`: one line and exit code 2 for bad input, one JSON object for a finished search."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import harness.search.launch as command
import tasks
from harness.cli import main
from harness.search.events import read_events
from tests.harness.search.table_backend import TableBackend


@contextmanager
def table(*_: object) -> Iterator[TableBackend]:
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
        (
            ["run", "--task", "rms_norm", "--time-limit", "nan"],
            "time limit is nan, expected a finite number of seconds",
        ),
        (["run", "--task", "rms_norm", "--time-limit", "0"], "time limit is 0.0, expected a finite number of seconds"),
        (["run", "--task", "rms_norm", "--arm", "greedy"], "unknown arm 'greedy'; known arms: gpu-only, speculative"),
        (["run", "--task", "rms_norm", "--arm", "filter"], "arm 'filter' follows a surrogate; name one"),
        (["run", "--task", "rms_norm", "--mutator", "sauce", "--backend", "cpu"], "unknown mutator 'sauce'"),
        (["run", "--task", "rms_norm", "--mutator", "llm=m", "--isolation", "shared"], "need --isolation strict"),
        (
            ["run", "--task", "softmax", "--backend", "replay", "--dataset", "h200-v0"],
            "'h200-v0' has no task 'softmax'",
        ),
        (["run", "--task", "rms_norm", "--backend", "replay", "--dataset", "h9"], "unknown dataset 'h9'"),
        (["second", "missing"], "missing: no event log"),
        (["report", "missing"], "missing: no search here"),
        (["batch-export", "--model", "m"], "nothing to ask about: give --task"),
        (["run", "--task", "rms_norm", "--workers", "0"], "workers is 0, expected at least 1"),
        (["campaign", "missing.toml"], "missing.toml"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(*arguments, "--out", tmp_path / "out") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert message in captured.err


@pytest.mark.parametrize("out", ["/proc/searches", "file/searches", "file"])
def test_a_folder_that_cannot_be_made_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    monkeypatch.setattr(command, "open_live_backend", None)
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
    def untimed(*_: object) -> Iterator[TableBackend]:
        backend = TableBackend()
        backend.session["timing_method"] = "none"
        yield backend

    for opener, shown, absent in ((untimed, "not timed", "x"), (table, "best rms_norm-train-0=", "not timed")):
        monkeypatch.setattr(command, "open_live_backend", opener)
        assert run("run", "--task", "rms_norm", "--budget", "7", "--out", tmp_path / shown) == 0
        last = capsys.readouterr().err.splitlines()[-1]
        assert shown in last and absent not in last.rpartition("ok, ")[2]


def test_a_search_prints_one_json_object_and_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "open_live_backend", table)
    arguments = ["run", "--task", "rms_norm", "--budget", "7", "--out", tmp_path, "--json", "--quiet"]
    rows = []
    for _ in range(2):
        assert run(*arguments) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        rows.append(json.loads(captured.out)["rows"])
    assert rows[0] == rows[1]
    (row,) = rows[0]
    assert (row["search_id"], row["reason"], row["measured"], row["error"]) == ("rms_norm-train-0", "budget", 7, None)
    assert row["best_speedup"] > 0 and row["costs"]["proposals"] == 7 - len(tasks.seed_names("rms_norm", "train"))
    assert row["leaf_share"] is None


def test_a_replay_needs_no_device_and_says_what_it_spent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--task", "rms_norm", "--backend", "replay", "--dataset", "h200-v0", "--budget", "12"]
    for arm in ("gpu-only", "random"):
        assert run("run", *arguments, "--arm", arm, "--out", tmp_path / "out") == 0
        captured = capsys.readouterr()
        assert (
            "12 measured" in captured.out and "leaf hits" in captured.out and "s of GPU time replayed" in captured.out
        )
        assert captured.err.splitlines()[-1].startswith("[12/12]")
    assert run("report", tmp_path / "out", "--out", tmp_path / "page") == 0
    printed = capsys.readouterr().out
    assert "gpu-only" in printed and "random" in printed
    names = sorted(path.name for path in (tmp_path / "page").iterdir())
    assert names == [
        "report.html", "rms_norm-test-0-lineage.png", "rms_norm-test-0-random-lineage.png",
        "rms_norm-test-best-speedup-so-far.png",
    ]  # fmt: skip
    assert run("report", tmp_path / "out", "--out", tmp_path / "page") == 2
    assert "exists already" in capsys.readouterr().err
    assert run("report", tmp_path / "out", "--json") == 0
    assert {row["arm"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"gpu-only", "random"}


FULL = """
import resource, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from harness.cli import main
main(sys.argv[2:])
"""


def test_a_full_disk_is_one_line_and_the_log_stays_whole(tmp_path: Path, root: Path) -> None:
    arguments = ["search", "run", "--task", "rms_norm", "--backend", "replay", "--dataset", "h200-v0", "--budget", "20"]
    line = [sys.executable, "-c", FULL, "150000", *arguments, "--out", str(tmp_path), "--quiet"]
    done = subprocess.run(line, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (printed,) = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    assert "cannot be written: File too large; its" in printed and "make room and run this again" in printed
    log = tmp_path / "rms_norm-test-0" / "events.jsonl"
    events = read_events(log)
    assert log.read_bytes().endswith(b"\n") and f"its {len(events)} events are whole" in printed
    assert run(*arguments[1:], "--out", tmp_path, "--quiet") == 0
    assert read_events(log)[: len(events)] == events


def test_a_damaged_log_fails_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "open_live_backend", table)
    (tmp_path / "rms_norm-train-0").mkdir()
    (tmp_path / "rms_norm-train-0" / "events.jsonl").write_text("{}\n", encoding="utf-8")
    assert run("run", "--task", "rms_norm", "--out", tmp_path, "--quiet") == 1
    assert "line 1: expected an object with 'index' and 'kind'" in capsys.readouterr().out
