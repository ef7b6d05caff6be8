"""A training run on disk, to be continued: weights, optimiser, random numbers and counters in one file.

One file, so that a kill leaves either the old state or the new one, and never arrays of one step beside counters of
another. Numbers and JSON alone: nothing is unpickled.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

FILE = "checkpoint.npz"
FORMAT = 1
Weights = dict[str, torch.Tensor]


class CheckpointError(ValueError):
    """There is no checkpoint, it is damaged, or it belongs to another run."""


@dataclass
class State:
    """Where a run stands after `step` updates; `best` are the weights with the highest objective on validation."""

    step: int
    best_objective: float
    best: Weights
    history: list[dict[str, Any]] = field(default_factory=list)
    reward_sum: float = 0.0  # of the rollouts since the last line of the history
    reward_steps: int = 0
    seconds: float = 0.0


def save(
    folder: Path, settings: dict[str, Any], state: State, model: torch.nn.Module, optimiser: torch.optim.Optimizer
) -> None:
    """Write the run's state, with torch's random state, in place of the one that is there."""
    arrays = {f"model/{name}": tensor.numpy() for name, tensor in model.state_dict().items()}
    arrays |= {f"best/{name}": tensor.numpy() for name, tensor in state.best.items()}
    for index, moments in optimiser.state_dict()["state"].items():
        arrays |= {f"optimiser/{index}/{name}": value.numpy() for name, value in moments.items()}
    counters = {name: value for name, value in vars(state).items() if name != "best"}
    text = json.dumps({"format": FORMAT, "settings": settings, "state": counters}, allow_nan=False)
    unfinished = folder / f"{FILE}.new"
    with unfinished.open("wb") as file:
        np.savez(
            file,
            allow_pickle=False,
            json=np.frombuffer(text.encode(), dtype=np.uint8),
            random=torch.get_rng_state().numpy(),
            **arrays,
        )
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(folder / FILE)


def load(folder: Path, settings: dict[str, Any], model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> State:
    """Put the run's weights, optimiser and random numbers back; return the rest.

    Raises CheckpointError if there is none, if it cannot be read, or if its settings are not these.
    """
    path = folder / FILE
    if not path.is_file():
        raise CheckpointError(f"'{folder}' holds no {FILE} to resume from; leave out --resume to begin a new run")
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        about = json.loads(arrays["json"].tobytes())
        known, state = about["settings"], State(best=_part(arrays, "best/"), **about["state"])
    except Exception as error:  # a damaged file can fail in any way that zip, JSON and NumPy know
        problem = f"{type(error).__name__}: {error}"
        raise CheckpointError(f"'{path}' is no sound checkpoint ({problem}); begin a new run") from None
    require_same(path, known, settings)
    model.load_state_dict(_part(arrays, "model/"))
    moments: dict[int, dict[str, torch.Tensor]] = {}
    for name, value in _part(arrays, "optimiser/").items():
        index, _, moment = name.partition("/")
        moments.setdefault(int(index), {})[moment] = value
    optimiser.load_state_dict({"state": moments, "param_groups": optimiser.state_dict()["param_groups"]})
    torch.set_rng_state(torch.tensor(arrays["random"]))
    return state


def require_same(path: Path, known: dict[str, Any], settings: dict[str, Any]) -> None:
    """Raise CheckpointError, naming the first one that differs, unless a run's known settings are these."""
    for name in sorted(known.keys() | settings.keys()):
        if known.get(name) != settings.get(name):
            problem = f"was made with {name} {known.get(name)!r}, and this run asks for {settings.get(name)!r}"
            raise CheckpointError(f"'{path}' {problem}; resume with the same settings, or begin a new run")


def _part(arrays: dict[str, np.ndarray], prefix: str) -> Weights:
    return {name[len(prefix) :]: torch.tensor(a) for name, a in arrays.items() if name.startswith(prefix)}
