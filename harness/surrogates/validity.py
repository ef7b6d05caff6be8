"""What makes a forecast one that can be scored."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from benchmark.bins import N_BINS
from benchmark.forecasts import LOG2_LIMIT, STATUSES, SUM_TOLERANCE
from benchmark.query import Forecast


def invalid(answer: Any) -> str | None:
    """Return what is wrong with a forecast, or None if it can be scored."""
    if not isinstance(answer, Forecast):
        return f"returned {type(answer).__name__}, expected benchmark.Forecast"
    if answer.status not in STATUSES:
        return f"status {answer.status!r}, expected one of {', '.join(STATUSES)}"
    for name in ("log2_speedup", "rank_score", "p_fail", "seconds"):
        value = getattr(answer, name)
        if value is not None and not _finite(value):
            return f"{name} is {value!r}, expected a finite number or None"
    if answer.log2_speedup is not None and abs(answer.log2_speedup) > LOG2_LIMIT:
        return f"log2_speedup is {answer.log2_speedup!r}, expected a number in [-{LOG2_LIMIT}, {LOG2_LIMIT}]"
    if answer.p_fail is not None and not 0 <= answer.p_fail <= 1:
        return f"p_fail is {answer.p_fail!r}, expected a probability"
    for name in ("seconds", "input_tokens", "output_tokens"):
        value = getattr(answer, name)
        if value is not None and not (_finite(value) and value >= 0):
            return f"{name} is {value!r}, expected a number that is not negative, or None"
    if answer.status != "ok":
        return None if answer.probabilities is None else f"probabilities given with status '{answer.status}'"
    return _invalid_probabilities(answer.probabilities)


def _invalid_probabilities(given: Any) -> str | None:
    if given is None or not hasattr(given, "__len__") or len(given) != N_BINS:
        found = "no" if given is None else len(given) if hasattr(given, "__len__") else type(given).__name__
        return f"{found} probabilities, expected {N_BINS}"
    if not all(_finite(p) and p >= 0 for p in given):
        return f"probabilities {list(given)!r} are not all finite numbers of at least 0"
    total = math.fsum(given)
    if abs(total - 1) > SUM_TOLERANCE:
        return f"probabilities sum to {total:.6g}, expected 1 within {SUM_TOLERANCE}"
    return None


def _finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)
