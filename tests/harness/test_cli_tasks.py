"""`kernelcast tasks`: list, show, new and verify."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import harness.cli.tasks as command
import tasks
from harness.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(["tasks", *arguments])
    said = capsys.readouterr()
    return int(stopped.value.code or 0), said.out, said.err


@pytest.fixture
def verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tasks_verify.json"
    monkeypatch.setattr(command, "VERIFIED", path)
    return path


def test_list_shows_the_best_seed_where_seeds_were_timed(verified: Path, capsys: pytest.CaptureFixture[str]) -> None:
    speedups = {"triton_row": 2.5, "torch_eager": 0.9}
    verified.write_text(json.dumps({"rows": [{"task": "rms_norm", "rough_speedup": speedups}]}))
    code, out, _ = run(capsys, "list")
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0 and lines["rms_norm"].endswith("triton_row 2.50x") and lines["softmax"].endswith("  -")
    assert lines["rms_norm"].split()[1:6] == ["norm", "operator", "12", "3", "4/3/4"]
    rows = {row["name"]: row for row in json.loads(run(capsys, "list", "--json")[1])["rows"]}
    assert set(rows) == set(tasks.names())
    assert rows["rms_norm"]["best_seed"] == {"name": "triton_row", "rough_speedup": 2.5}
    assert rows["softmax"]["best_seed"] is None


def test_list_says_which_result_file_is_wrong(verified: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verified.write_text("{}")
    code, _, err = run(capsys, "list")
    assert code == 2 and "tasks_verify.json: not a result of `kernelcast tasks verify`" in err


def test_show_prints_all_that_is_known_of_a_task(verified: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verified.write_text(json.dumps({"rows": [{"task": "softmax", "rough_speedup": {"triton_row": 1.5}}]}))
    task = tasks.get("softmax")
    code, out, _ = run(capsys, "show", "softmax")
    assert code == 0 and task.statement in out and task.notes in out and "def reference" in out
    cells = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    for case in (*task.check_cases, *task.timing_cases, *task.small_timing_cases):
        assert f"{case.bytes / 1e6:.3f}" in cells[case.case_id] and f"{case.flops / 1e6:.3f}" in cells[case.case_id]
    assert cells["triton_row"] == ["triton_row", "train", "triton", "1.50x"]
    assert cells["cuda_warp_row"] == ["cuda_warp_row", "test", "cuda", "-"]
    shown = json.loads(run(capsys, "show", "softmax", "--json")[1])
    assert {row["use"] for row in shown["rows"]} == {"check", "timing", "timing, small card"}


def test_new_writes_a_template_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "new", "my_task", "--into", str(tmp_path))
    assert code == 0 and len(out.splitlines()) == 8 and "kernelcast tasks verify my_task" in err
    assert all(Path(line).is_file() for line in out.splitlines())
    assert 'name="my_task"' in (tmp_path / "my_task" / "task.py").read_text()
    code, _, err = run(capsys, "new", "my_task", "--into", str(tmp_path))
    assert code == 2 and "exists already" in err
    assert run(capsys, "new", "softmax", "--into", str(tmp_path))[0] == 2
    assert run(capsys, "new", "other", "--into", str(tmp_path / "absent"))[0] == 2


def test_verify_needs_names_or_all_and_a_new_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "verify")[0] == 2
    assert run(capsys, "verify", "softmax", "--all")[0] == 2
    assert "Did you mean 'softmax'" in run(capsys, "verify", "softmx")[2]
    (tmp_path / "old.json").write_text("{}")
    assert "--overwrite" in run(capsys, "verify", "softmax", "--out", str(tmp_path / "old.json"))[2]


def test_verify_refuses_an_open_template_with_one_object_on_stdout(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    environment = {**os.environ, "PYTHONPATH": str(root), "KERNELCAST_TASKS": str(tmp_path)}
    line = [sys.executable, "-m", "harness.cli", "tasks"]
    for arguments in (["new", "my_task", "--into", "."], ["verify", "my_task", "--json", "--out", "out.json"]):
        done = subprocess.run([*line, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((tmp_path / "out.json").read_text())
    (row,) = result["rows"]
    assert row["failures"][0]["detail"].startswith("still to be filled in: reference.py:1, ")
    assert result["totals"]["tasks_ok"] == 0
