"""Every supported Python installs the wheel with the pinned versions, without torch, and gets the same scores."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def _candidates(version: str) -> Iterator[str]:
    variable = os.environ.get("PYTHON_" + version.replace(".", "_"))
    yield from filter(None, (variable, shutil.which(f"python{version}")))
    managed = (
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions",
        Path.home() / ".local/share/uv/python",
    )
    for folder in managed:
        yield from map(str, sorted(folder.glob(f"*{version}.*/bin/python{version}")))


def _interpreter(version: str) -> str:
    for candidate in _candidates(version):
        asked = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == version:
            return candidate
    pytest.fail(
        f"no Python {version} found: install it (`pyenv install {version}`, `uv python install {version}`, or your "
        f"system's package python{version} with its venv module), or set PYTHON_{version.replace('.', '_')} to its path"
    )


def _score(python: Path | str, forecasts: Path, folder: Path) -> dict[str, Any]:
    command = [str(python), "-m", "harness.cli", "score", str(forecasts), "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict):
        for key in sorted(value):
            yield from _numbers(value[key])
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield value


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_wheel_scores_the_same(version: str, wheel: Path, root: Path, tmp_path: Path) -> None:
    subprocess.run([_interpreter(version), "-m", "venv", str(tmp_path / "environment")], check=True)
    python = tmp_path / "environment" / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "-qq", "--prefer-binary", "-c", str(root / "constraints.txt")]
    installed = subprocess.run(
        [*pip, *os.environ.get("PIP_ARGS", "").split(), str(wheel)], capture_output=True, text=True, check=False
    )
    assert installed.returncode == 0, installed.stderr
    torch = subprocess.run([str(python), "-c", "import torch"], capture_output=True, check=False)
    assert torch.returncode != 0, "the core installs torch"
    forecasts = sorted((root / "leaderboard" / "submissions").glob("*/pairs.parquet"))[0]
    there = list(_numbers(_score(python, forecasts, tmp_path)))
    here = list(_numbers(_score(sys.executable, forecasts, root)))
    assert there and there == pytest.approx(here, rel=1e-9)
