"""Text that states a forecast, for training a language model: prompts, judged answers, and examples of the format."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmark.bins import N_BINS, Floats
from harness.surrogates.lm.parsing import Said, parse_answer
from harness.surrogates.lm.tool import FIELDS
from harness.train.rewards import Reward

CERTAINTY = 16.0  # total concentration of the examples around the base rates


def balanced_order(tasks: Sequence[str], seed: int) -> np.ndarray:
    """Return row numbers, shuffled, in which every row occurs and all tasks occur equally often."""
    rng = np.random.default_rng(seed)
    names, task, count = np.unique(np.asarray(tasks), return_inverse=True, return_counts=True)
    parts = []
    for number in range(len(names)):
        members, most = np.flatnonzero(task == number), int(count.max())
        rounds = [rng.permutation(members) for _ in range(-(-most // len(members)))]
        parts.append(np.concatenate(rounds)[:most])
    return rng.permutation(np.concatenate(parts))


def judge(rewarded: Reward) -> Callable[..., list[float]]:
    """Return the reward in the form that TRL asks for; a text that is no forecast gets what is stated for it."""

    def reward(completions: Sequence[str], mass: Sequence[Sequence[float]], **_: Any) -> list[float]:
        forecast, parsed = read(completions)
        values: list[float] = rewarded(forecast, np.asarray(mass), parsed).tolist()
        return values

    return reward


def read(texts: Sequence[str]) -> tuple[Floats, np.ndarray]:
    """Return the forecasts in texts, shape (n, 8), and which could be read; uniform where not."""
    found = [parse_answer(Said(text)).probabilities for text in texts]
    rows = [np.full(N_BINS, 1 / N_BINS) if p is None else p for p in found]
    return np.array(rows).reshape(len(texts), N_BINS), np.array([p is not None for p in found], dtype=bool)


def examples(rates: Floats, n: int, seed: int) -> list[str]:
    """Return n answers in the right form, drawn at random around the base rates of the bins.

    They say nothing of a query: what a model learns from them is the form, and how often each bin occurs.
    """
    rows = np.random.default_rng(seed).dirichlet(CERTAINTY * rates + 0.25, size=n)
    return [statement(row) for row in rows]


def statement(forecast: Floats) -> str:
    """Return the answer that states a forecast in whole hundredths, which sum to 1."""
    scaled = forecast / forecast.sum() * 100
    hundredths = np.floor(scaled).astype(int)
    # The largest remainders are rounded up.
    missing = 100 - int(hundredths.sum())
    hundredths[np.argsort(hundredths - scaled, kind="stable")[:missing]] += 1
    return json.dumps({field: value / 100 for field, value in zip(FIELDS, hundredths.tolist(), strict=True)})
