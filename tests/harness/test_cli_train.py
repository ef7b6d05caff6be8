"""`kernelcast train`: one line and exit code 2 for bad input; a folder that is a surrogate."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.cli import main

pytest.importorskip("torch")
DATA = ("--dataset", "h200-v0")


def run(*arguments: Any) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["train", *map(str, arguments)])
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--reward", "crps"], "unknown reward 'crps'; write one of correctness, brier"),
        (["--reward", "rps", "--weight", "nan"], "weight is nan, expected a finite number"),
        (["--reward", "rps", "--policy", "large"], "unknown policy 'large'; expected compact or lm"),
        (["--reward", "rps", "--steps", "0"], "steps is 0, expected at least 1"),
        (["--reward", "rps", "--group", "1"], "group is 1, expected at least 2"),
        (["--reward", "rps", "--seed", "-1"], "seed is -1, expected at least 0"),
        (["--reward", "rps", "--advantage-scale", "std"], "unknown scale 'std' of advantages"),
        (["--reward", "rps", "--time-limit", "nan"], "time limit is nan, expected a positive number of seconds"),
        (["--reward", "rps", "--start", "missing"], "'missing' holds no weights to start from (arrays.npz)"),
        (["--reward", "rps", "--policy", "lm"], "--policy lm begins with the weights in --model DIR"),
        (["--reward", "rps", "--policy", "lm", "--model", "gone"], "gone: no weights here; expected a folder"),
        (["--reward", "supervised", "--policy", "lm", "--model", "gone"], "policy lm has no supervised training"),
        (["--reward", "rps", "--model", "gone"], "--model is for --policy lm"),
        (["--reward", "rps", "--resume"], "holds no checkpoint.npz to resume from"),
        (["--reward", "rps", "--dataset", "h9"], "unknown dataset 'h9'"),
        ([], "Missing option '--reward'"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--out", tmp_path / "out", *arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and err.count("\n") == 1, err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_exists_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--reward", "rps", "--out", tmp_path) == 2
    assert "exists already; give another --out" in capsys.readouterr().err


def test_a_reward_of_nan_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nan_reward.py").write_text("def reward(p, q):\n    return p[:, 0] * float('nan')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert run("--reward", "nan_reward:reward", "--out", "out", "--limit", 40, "--quiet", *DATA) == 2
    err = capsys.readouterr().err
    assert "reward 'nan_reward:reward' is nan in row 0" in err and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_empty_split_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.surrogates.training import join
    from harness.train import rows

    monkeypatch.setattr(rows, "learning_rows", lambda *_: join([]))
    assert run("--reward", "rps", "--out", tmp_path / "out", *DATA) == 2
    assert "split 'train' of dataset 'h200-v0' is empty" in capsys.readouterr().err


def test_json_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run("--reward", "brier", "--out", out, "--steps", 2, "--limit", 40, "--json", "--quiet", *DATA) == 0
    printed, err = capsys.readouterr()
    found = json.loads(printed)
    assert found["finished"] and found["steps"] == 2 and found["settings"]["reward"] == "brier" and err == ""
    assert run("--reward", "brier", "--out", out, "--steps", 2, "--limit", 40, "--quiet", "--resume", *DATA) == 0


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_weights(tmp_path: Path, root: Path) -> None:
    """The process is killed as it is, at no agreed place."""
    options = ["--reward", "rps", "--seed", "5", "--steps", "120", "--limit", "60", "--quiet", *DATA]
    base = [sys.executable, "-m", "harness.cli", "train", *options]
    subprocess.run([*base, "--out", tmp_path / "whole"], cwd=root, check=True)
    broken = tmp_path / "broken"
    running = subprocess.Popen([*base, "--out", broken], cwd=root)
    deadline = time.monotonic() + 120
    while not _step_of(broken) >= 9 and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL and 9 <= _step_of(broken) < 120
    assert not (broken / "surrogate.json").exists()
    subprocess.run([*base, "--out", broken, "--resume"], cwd=root, check=True)
    with np.load(tmp_path / "whole" / "arrays.npz") as a, np.load(broken / "arrays.npz") as b:
        assert a.files == b.files and all(np.array_equal(a[name], b[name]) for name in a.files)


def _step_of(folder: Path) -> int:
    path = folder / "checkpoint.npz"
    if not path.exists():
        return -1
    with np.load(path) as stored:
        return int(json.loads(stored["json"].tobytes())["state"]["step"])
