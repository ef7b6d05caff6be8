"""Runs the tests in `compiled` in a process whose Triton compiles."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "compiled"


@pytest.mark.parametrize("which", ["not slow and not gpu", pytest.param("slow and not gpu", marks=pytest.mark.slow)])
def test_what_needs_the_compiler(root: Path, which: str) -> None:
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", which, str(FOLDER)]
    run = subprocess.run(
        line, cwd=root, env={**os.environ, "TRITON_INTERPRET": "0"}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    assert " passed" in run.stdout
