"""The training loop of the compact policy: seeded, checkpointed, and the same whether or not it was interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.surrogates.neural import one_thread
from harness.surrogates.saved import load as load_surrogate
from harness.train import checkpoint
from harness.train.checkpoint import State
from harness.train.compact import Compact, forecasts, mean_forecast, new_model, sample
from harness.train.policy_gradient import group_advantages, policy_loss, require_sensible
from harness.train.rewards import SUPERVISED, Reward, reward
from harness.train.rows import Rows, batch_rows
from harness.train.validation import measures, objective

WEIGHT_DECAY, CLIP = 0.05, 1.0
WARM_UP = 0.05  # share of the steps over which the learning rate rises
LINES = 40  # of the history, at even distances


@dataclass(frozen=True)
class Settings:
    """All that decides how a run ends. `start` is a trained folder whose weights it begins with, or empty."""

    reward: str
    seed: int
    dataset: str
    steps: int = 2000
    weight: float = 1.0
    batch: int = 32
    group: int = 16
    learning_rate: float = 1e-3
    advantage_scale: str = "batch"
    start: str = ""
    limit: int | None = None
    policy: str = "compact"

    def __post_init__(self) -> None:
        require_sensible(self)

    def rewarded(self) -> Reward | None:
        """Return the reward; None for supervised training. Raises RewardError."""
        return None if self.reward == SUPERVISED else reward(self.reward, self.weight)


@dataclass(frozen=True)
class Run:
    """A run as it stands when its loop ends: `finished`, or stopped by its time limit."""

    settings: Settings
    state: State
    finished: bool

    def surrogate(self) -> Compact:
        """Return the policy with the weights that did best on validation, by the run's own objective."""
        found = Compact()
        found.restore_fitted({}, {name: tensor.numpy() for name, tensor in self.state.best.items()})
        return found


def train(
    settings: Settings,
    rows: Rows,
    validation: Rows,
    folder: Path,
    resume: bool = False,
    time_limit: float | None = None,
    report: Callable[[dict[str, Any], float], None] = lambda line, left: None,
) -> Run:
    """Train, or go on from the checkpoint in the folder; `report` gets each line of the history and the seconds left.

    One thread, in double precision: the same settings and rows give the same weights, interrupted or not. Raises
    RewardError, and CheckpointError for a checkpoint that does not fit.
    """
    started, rewarded = time.monotonic(), settings.rewarded()
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = _begin(settings, rows)
        optimiser = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=WEIGHT_DECAY)
        if resume:
            state = checkpoint.load(folder, asdict(settings), model, optimiser)
        else:
            state = State(0, -np.inf, {})
            _judge(model, validation, rewarded, state)
            checkpoint.save(folder, asdict(settings), state, model, optimiser)
        first, before = state.step, state.seconds
        every = max(1, settings.steps // LINES)
        while state.step < settings.steps:
            elapsed = time.monotonic() - started
            if time_limit is not None and elapsed >= time_limit:
                break
            state.reward_sum += _update(model, optimiser, rows, rewarded, settings, state.step)
            state.reward_steps += 1
            state.step += 1
            if state.step % every == 0 or state.step == settings.steps:
                elapsed = time.monotonic() - started
                state.seconds = before + elapsed
                line = _judge(model, validation, rewarded, state)
                checkpoint.save(folder, asdict(settings), state, model, optimiser)
                report(line, elapsed / (state.step - first) * (settings.steps - state.step))
        checkpoint.save(folder, asdict(settings), state, model, optimiser)
    return Run(settings, state, state.step >= settings.steps)


def _begin(settings: Settings, rows: Rows) -> torch.nn.Sequential:
    model = new_model(Compact().width)
    if not settings.start:
        model[0].standardise(rows.features)  # type: ignore[operator]
        return model
    found = load_surrogate(settings.start)
    if not isinstance(found, Compact) or found.model is None or found.width != Compact().width:
        raise ValueError(f"'{settings.start}' holds no compact policy to start from, but a {type(found).__name__}")
    model.load_state_dict(found.model.state_dict())
    return model


def _update(
    model: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    rows: Rows,
    rewarded: Reward | None,
    settings: Settings,
    step: int,
) -> float:
    """Make one update; return the mean reward of its rollouts, or minus the cross-entropy."""
    index = batch_rows(len(rows), settings.batch, settings.seed, step)
    optimiser.param_groups[0]["lr"] = settings.learning_rate * _share_of_rate(step / settings.steps)
    model.train()
    alpha = model(rows.features.rows(index))
    if rewarded is None:
        mass, weight = torch.as_tensor(rows.mass[index]), torch.as_tensor(rows.weight[index])
        loss = -(weight * (mass * torch.log(mean_forecast(alpha))).sum(dim=1)).mean()
        value = -float(loss.detach())
    else:
        forecast, density = sample(alpha, settings.group)
        label = np.repeat(rows.mass[index], settings.group, axis=0)
        rewards = rewarded(forecast.reshape(label.shape), label).reshape(len(index), settings.group)
        loss = policy_loss(density, group_advantages(rewards, settings.advantage_scale), rows.weight[index])
        value = float((rewards.mean(axis=1) * rows.weight[index]).mean())
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP, error_if_nonfinite=True)
    optimiser.step()
    return value


def _share_of_rate(progress: float) -> float:
    """Return the share of the learning rate: up from a tenth over the warm-up, then down to a tenth, both linearly."""
    return float(np.interp(progress, [0.0, WARM_UP, 1.0], [0.1, 1.0, 0.1]))


def _judge(model: torch.nn.Module, validation: Rows, rewarded: Reward | None, state: State) -> dict[str, Any]:
    """Add a line to the history, and keep the weights if they are the best so far."""
    forecast = forecasts(model, validation.features)
    value = objective(forecast, validation, rewarded)
    if value > state.best_objective:
        state.best_objective = value
        state.best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    line = {
        "step": state.step,
        "seconds": round(state.seconds, 3),
        "reward": state.reward_sum / state.reward_steps if state.reward_steps else None,
        "objective": value,
        **measures(forecast, validation),
    }
    state.reward_sum, state.reward_steps = 0.0, 0
    state.history.append(line)
    return line
