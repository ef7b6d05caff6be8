"""Progress as a person at a terminal, and as a log file, sees it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import console
from harness.cli.console import progress

ROOT = Path(__file__).resolve().parents[2]
COUNT = """
import time
from harness.cli import console
console.PATIENCE_S = 0.0
with console.progress("counting", 3) as advance:
    for _ in range(3):
        advance(1)
        time.sleep(0.15)
"""


def test_a_terminal_gets_a_bar_with_count_and_rate() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "80"}
    try:
        done = subprocess.run([sys.executable, "-c", COUNT], env=environment, stderr=theirs, timeout=60)
        os.set_blocking(ours, False)
        said = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0, said
    assert "counting" in said and "-/s" in said and "3/3" in said


def test_a_log_gets_plain_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(console, "PATIENCE_S", 0.0)
    monkeypatch.setattr(console, "PLAIN_INTERVAL_S", 0.0)
    with progress("counting", 2) as advance:
        advance(1)
        advance(1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("counting: 1/2, ") and lines[1].startswith("counting: 2/2, ")
