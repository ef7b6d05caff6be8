"""One training run from a dataset to a folder that is a surrogate: weights, curves, summary and checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmark.bins import N_BINS
from harness.destination import check_destination
from harness.surrogates.saved import ARRAYS, DESCRIPTION
from harness.surrogates.saved import save as save_surrogate
from harness.train import checkpoint
from harness.train.adapted import Adapted
from harness.train.compact import EXPRESSION
from harness.train.curves import draw
from harness.train.language_model import ModelSettings, train_model
from harness.train.loop import Settings, train
from harness.train.rewards import SUPERVISED
from harness.train.rows import Progress, load_rows, unseen
from harness.train.validation import said

SUMMARY, CURVES, SETTINGS = "training.json", "curves.png", "settings.json"
Say = Callable[[str], None]


def run(
    settings: Settings | ModelSettings,
    folder: Path,
    resume: bool = False,
    time_limit: float | None = None,
    say: Say = lambda message: None,
    show: Progress = unseen,
) -> dict[str, Any]:
    """Train and write the folder; return its summary.

    Started by `accelerate launch`, only the main process writes and speaks. Raises ValueError, before any work, for a
    folder that is there without `resume`, and for settings that cannot be trained with.
    """
    main = os.environ.get("RANK", "0") == "0"
    say = say if main else lambda message: None
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"time limit is {time_limit}, expected a positive number of seconds")
    marker = checkpoint.FILE if isinstance(settings, Settings) else SETTINGS
    if main:
        _check_folder(folder, resume, marker)
    rewarded = settings.rewarded()
    if isinstance(settings, Settings) and settings.start and not (Path(settings.start) / ARRAYS).is_file():
        raise ValueError(f"'{settings.start}' holds no weights to start from ({ARRAYS}); give the --out of a run")
    policy = None
    if isinstance(settings, ModelSettings):
        _choose_gpu()
        # First of all: the folder of the weights may be missing.
        policy = Adapted(settings.model, window=settings.window, max_new_tokens=settings.new_tokens)
    rows, validation = (load_rows(split, settings.dataset, settings.limit, show) for split in ("train", "validation"))
    say(f"{len(rows)} rows to train on, {len(validation)} to choose by, of '{settings.dataset}'")
    if rewarded is not None:
        for part in (rows, validation):  # before anything is written: a reward that is not a number ends here
            rewarded(np.full(part.mass.shape, 1 / N_BINS), part.mass)
    if main:
        folder.mkdir(parents=True, exist_ok=resume)

    def report(line: dict[str, Any], left: float) -> None:
        kind = "log score" if settings.reward == SUPERVISED else "reward"
        say(f"step {line['step']}/{settings.steps}: {kind} {line['reward']:.3f}, {said(line)}, {left:.0f} s left")

    about: dict[str, Any]
    if isinstance(settings, Settings):
        done = train(settings, rows, validation, folder, resume, time_limit, report)
        kept = max(done.state.history, key=lambda line: line["objective"])
        about = {"finished": done.finished, "steps": done.state.step, "seconds": round(done.state.seconds, 1)}
        about |= {"kept": kept, "history": done.state.history}
        _save(done.surrogate(), EXPRESSION, settings.dataset, folder)
    else:
        assert policy is not None
        if main:
            _remember(settings, folder, resume)
        history, step = train_model(settings, policy, rows, validation, folder, resume, time_limit, report)
        about = {"finished": step >= settings.steps, "steps": step, "history": history}
        about |= {"kept": history[-1] if history else None}
        if main:
            _save(policy, policy.expression, settings.dataset, folder)
    summary = {"settings": asdict(settings), **about}
    if main:
        (folder / SUMMARY).write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        title = f"{settings.policy}, {settings.reward}, seed {settings.seed}, {settings.dataset}"
        draw(title, about["history"], settings.reward == SUPERVISED, folder / CURVES)
    return summary


def _check_folder(folder: Path, resume: bool, marker: str) -> None:
    check_destination(folder, folder=True)
    if folder.exists() and not resume:
        problem = f"'{folder}' exists already; give another --out"
        raise ValueError(problem + (", or --resume to continue it" if (folder / marker).is_file() else ""))
    if resume and not (folder / marker).is_file():
        raise ValueError(f"'{folder}' holds no {marker} to resume from; leave out --resume to begin a new run")


def _choose_gpu() -> None:
    """Give each process of one machine a GPU of its own, as a launcher numbers them."""
    import torch

    if "LOCAL_RANK" in os.environ and torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


def _remember(settings: ModelSettings, folder: Path, resume: bool) -> None:
    """Write the settings of a new run. Raises CheckpointError if the run that is resumed had other ones."""
    path = folder / SETTINGS
    if not resume:
        path.write_text(json.dumps(asdict(settings), indent=1) + "\n", encoding="utf-8")
        return
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise checkpoint.CheckpointError(f"'{path}' cannot be read ({error}); begin a new run") from None
    checkpoint.require_same(path, known, asdict(settings))


def _save(surrogate: Any, expression: str, dataset: str, folder: Path) -> None:
    with TemporaryDirectory(dir=folder, prefix=".saved-") as temporary:
        save_surrogate(surrogate, expression, dataset, Path(temporary) / "surrogate")
        for name in (ARRAYS, DESCRIPTION):
            (Path(temporary) / "surrogate" / name).replace(folder / name)
