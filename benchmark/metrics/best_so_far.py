"""End to end: how fast the best kernel of a search grows with the measurements that it spends.

A run is the speedups that it measured, in order; a failed measurement is NaN, costs one like any other, and finds
nothing. A run that stops before its budget (its tree is exhausted) keeps its best until the budget's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmark.metrics.tally import Floats
from benchmark.metrics.value import Value

SHARE = 0.95


@dataclass(frozen=True)
class Reached:
    """How many measurements a run spent until it reached a target; `censored` when it did not within its budget.

    Then `measurements` is the budget, a lower bound of what it would have taken.
    """

    measurements: int
    censored: bool


def best_so_far(speedup: npt.ArrayLike, budget: int | None = None) -> Floats:
    """Return the best speedup among the first k measurements, for k = 1..budget, shape (budget,); 0 before a success.

    Raises ValueError for a speedup that is not positive, and for more measurements than the budget.
    """
    s = np.asarray(speedup, dtype=np.float64)
    bad = ~(np.isnan(s) | (np.isfinite(s) & (s > 0)))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"measurement {row + 1} has speedup {s[row]}, expected a positive number, or NaN for a failure"
        )
    n = len(s) if budget is None else budget
    if len(s) > n:
        raise ValueError(f"{len(s)} measurements in a budget of {n}")
    best = np.maximum.accumulate(np.concatenate([[0.0], np.where(np.isnan(s), 0.0, s)]))[1:]
    return np.concatenate([best, np.full(n - len(s), best[-1] if len(best) else 0.0)])


def measurements_to(speedup: npt.ArrayLike, best: float, budget: int, share: float = SHARE) -> Reached:
    """Return the measurements that a run spends until its best is at least `share` of `best`, in 1..budget.

    Lower is better. `best` is the best speedup on record, not the run's own. Raises ValueError unless it is positive.
    """
    if not (np.isfinite(best) and best > 0):
        raise ValueError(f"the best speedup on record is {best}, expected a positive number")
    reached = best_so_far(speedup, budget) >= share * best
    return Reached(int(reached.argmax()) + 1, False) if reached.any() else Reached(budget, True)


def restricted_mean(reached: Sequence[Reached]) -> Value:
    """Return the mean of measurements, a run that did not reach the target counting its whole budget.

    The restricted mean survival time (Irwin 1949): defined under censoring, and a lower bound of the mean without a
    budget. The reason says how many runs are censored.
    """
    if not reached:
        return Value(None, reason="no run")
    censored = sum(r.censored for r in reached)
    remark = f"{censored} of {len(reached)} runs did not get there within their budget" if censored else None
    return Value(float(np.mean([r.measurements for r in reached])), reason=remark)


def area_under_best(speedup: npt.ArrayLike, best: float, budget: int) -> float:
    """Return (1/budget) sum_k (best of the first k measurements) / `best`; 1 finds it at once, higher is better.

    In [0, 1] when `best` is the largest speedup that the run could measure. Raises ValueError unless it is positive.
    """
    if not (np.isfinite(best) and best > 0):
        raise ValueError(f"the best speedup on record is {best}, expected a positive number")
    return float(best_so_far(speedup, budget).mean() / best) if budget else 0.0


def win_tie_loss(first: npt.ArrayLike, second: npt.ArrayLike, tolerance: float = 0.0) -> tuple[int, int, int]:
    """Return on how many paired runs the first is larger, about equal, and smaller.

    Numbers closer than `tolerance` are equal. Raises ValueError for unequal lengths.
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape:
        raise ValueError(f"{a.shape} and {b.shape} runs, expected pairs")
    apart = np.abs(a - b) > tolerance
    return int((apart & (a > b)).sum()), int((~apart).sum()), int((apart & (a < b)).sum())
