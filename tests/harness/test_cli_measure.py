"""`kernelcast measure`, on the CPU backend."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tasks


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "harness.cli", "measure", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(tasks.seed_code("rms_norm", "triton_row"))
    bad.write_text("import os\ndef custom_kernel(data):\n    os.kill(os.getpid(), 9)\n")
    return str(good), str(bad)


def test_every_file_gets_its_status_and_a_failure_its_exit_code(root, files):
    done = run(root, *files, "--task", "rms_norm", "--backend", "cpu", "--json")
    assert done.returncode == 1, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [(row["file"], row["status"]) for row in rows] == [(files[0], "ok"), (files[1], "runtime")]
    assert "SIGKILL" in rows[1]["error"]


def test_a_good_kernel_exits_0_with_a_table(root, files):
    done = run(root, files[0], "--task", "rms_norm", "--backend", "cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split() == [files[0], "ok"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("nothing.py", "--task", "rms_norm"), "nothing.py is not there"),
        ((".", "--task", "rms_norm"), "is a folder"),
        (("GOOD", "--task", "rms_nrom"), "rms_norm"),
        (("GOOD", "--task", "rms_norm", "--backend", "tpu"), "cuda, cpu"),
        (("BINARY", "--task", "rms_norm", "--backend", "cpu"), "not UTF-8"),
        (("GOOD", "--task", "rms_norm", "--backend", "cpu", "--workers", "0"), "workers"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(root, files, tmp_path, arguments, words):
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    names = {"GOOD": files[0], "BINARY": str(tmp_path / "binary.py")}
    done = run(root, *(names.get(a, a) for a in arguments))
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_ctrl_c_ends_at_once_and_shows_what_is_done(root, files, tmp_path):
    (tmp_path / "loop.py").write_text("while True: pass\n")
    line = [sys.executable, "-m", "harness.cli", "measure", files[0], str(tmp_path / "loop.py")]
    log = tmp_path / "log.jsonl"
    line += ["--task", "rms_norm", "--backend", "cpu", "--json", "--out", str(log)]
    running = subprocess.Popen(
        line, env={**os.environ, "PYTHONPATH": str(root)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while (not log.exists() or '"measured"' not in log.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    asked = time.monotonic()
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=30)
    assert time.monotonic() - asked < 10
    assert running.returncode == 130
    assert [row["status"] for row in json.loads(out)["rows"]] == ["ok", "interrupted"]
