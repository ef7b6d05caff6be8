"""Rewards of a forecast against its label: correctness, and proper scores of the whole distribution.

Forecasts and labels have shape (n, 8). A label is a distribution over the bins as they are scored (`benchmark.bins`):
the mass that the speedup's interval puts in each, or a one-hot row for a hard label; a reward is the expectation over
bins drawn from it. Every term lies in [0, 1] and higher is better, so that the least value of every reward is 0, which
is also what an unparsed answer gets by default: saying nothing never pays. Pure functions of NumPy arrays.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

import numpy as np
import numpy.typing as npt

from benchmark.bins import Floats
from benchmark.metrics.calibration import LOG_FLOOR, half_brier, log_loss, ranked_probability_score, top_label

SUPERVISED = "supervised"  # no reward: the cross-entropy of the label, what the rewards are compared with
Score = Callable[[npt.ArrayLike, npt.ArrayLike], Floats]


class RewardError(ValueError):
    """A reward is unknown, or gave something that cannot be trained on."""


def correctness(forecast: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
    """Return the label mass of the forecast's most probable bin, shape (n,); tied bins share. Ignores confidence."""
    return top_label(forecast, label)[1]


def brier_score(forecast: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
    """Return 1 - half-Brier, shape (n,), strictly proper (Brier 1950)."""
    return 1 - half_brier(forecast, label)


def rps_score(forecast: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
    """Return 1 - ranked probability score, shape (n,), strictly proper and aware of the order (Epstein 1969)."""
    return 1 - ranked_probability_score(forecast, label)


def log_score(forecast: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
    """Return 1 + sum_b q_b ln max(p_b, f) / ln(1 / f), shape (n,), with the floor f of the scored log loss (Good 1952).

    The logarithm is scaled into [0, 1], because an unbounded loss would make an unparsed answer the better choice. It
    is proper for forecasts that keep to the floor.
    """
    return 1 - log_loss(forecast, label) / -math.log(LOG_FLOOR)


@dataclass(frozen=True)
class Reward:
    """R = correctness (if it counts) + weight x score (if there is one); `unparsed` is what no answer gets."""

    name: str
    counts_correctness: bool
    score: Score | None
    weight: float = 1.0
    unparsed: float = 0.0

    def __post_init__(self) -> None:
        for name in ("weight", "unparsed"):
            if not math.isfinite(getattr(self, name)):
                raise RewardError(f"reward '{self.name}': {name} is {getattr(self, name)}, expected a finite number")
        if self.weight < 0:
            raise RewardError(f"reward '{self.name}': weight is {self.weight}, expected 0 or more")

    def __call__(
        self, forecast: npt.ArrayLike, label: npt.ArrayLike, parsed: npt.NDArray[np.bool_] | None = None
    ) -> Floats:
        """Return the reward of each forecast, shape (n,); rows that are not `parsed` may hold anything.

        Raises RewardError, naming the row, for a reward that is not finite.
        """
        p, q = np.asarray(forecast, dtype=np.float64), np.asarray(label, dtype=np.float64)
        read = np.ones(len(p), dtype=bool) if parsed is None else np.asarray(parsed, dtype=bool)
        values = np.full(len(p), self.unparsed)
        values[read] = self._of(p[read], q[read])
        return checked(values, self.name)

    def _of(self, p: Floats, q: Floats) -> Floats:
        total = np.zeros(len(p))
        if self.counts_correctness:
            total += correctness(p, q)
        if self.score is not None:
            found = np.asarray(self.score(p, q), dtype=np.float64)
            if found.shape != total.shape:
                problem = f"gave an array of shape {found.shape} for {len(p)} forecasts, expected ({len(p)},)"
                raise RewardError(f"reward '{self.name}' {problem}")
            total += self.weight * found
        return total


# name -> (whether correctness counts, the score)
REWARDS: Mapping[str, tuple[bool, Score | None]] = {
    "correctness": (True, None),
    "brier": (True, brier_score),
    "rps": (True, rps_score),
    "log": (True, log_score),
    "brier-only": (False, brier_score),
    "rps-only": (False, rps_score),
    "log-only": (False, log_score),
}


def reward(name: str, weight: float = 1.0, unparsed: float = 0.0) -> Reward:
    """Return the reward of a name in REWARDS, or one that `module:function` names and that is used alone.

    Such a function takes forecasts and labels, both (n, 8), and returns n numbers. Raises RewardError.
    """
    if name in REWARDS:
        return Reward(name, *REWARDS[name], weight, unparsed)
    if ":" not in name:
        known = ", ".join([*REWARDS, SUPERVISED])
        raise RewardError(f"unknown reward '{name}'; write one of {known}, or module:function for your own")
    return Reward(name, False, _function(name), weight, unparsed)


def _function(path: str) -> Score:
    module, _, name = path.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that a file there replaces no module
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise RewardError(f"cannot load the reward '{path}': {error}") from None
    if not callable(found):
        raise RewardError(f"'{path}' is no function, expected one of forecasts and labels, both of shape (n, 8)")
    return found  # type: ignore[no-any-return]


def checked(values: Floats, name: str) -> Floats:
    """Return the rewards. Raises RewardError for one that is not finite: it would spread to every weight."""
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(wrong.argmax())
        problem = f"is {values[row]} in row {row}, and not finite in {int(wrong.sum())} of {len(values)} rows"
        raise RewardError(f"reward '{name}' {problem}; a reward has to be a number for every forecast")
    return values
