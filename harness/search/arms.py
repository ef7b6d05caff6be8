"""The arms of a search: how the children to measure are chosen, and what becomes of the others.

All arms draw parents and propose children in the same way and in the same number; an arm decides only which of a
parent's children are measured, and whether those that are not may become parents with their forecast as score.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from benchmark.bins import LOG2_MIDPOINTS, N_BINS
from benchmark.query import Forecast

MOST_CERTAIN_FAILURE = 0.99


@dataclass(frozen=True)
class Arm:
    """`order` says which children come first: all of them, best or least certain forecast, at random, or the truth.

    `keeps` tells whether children that are not measured stay in the archive with their forecast as score.
    """

    order: str
    keeps: bool
    description: str

    @property
    def asks(self) -> bool:
        """Whether the arm needs a surrogate."""
        return self.order in ("forecast", "doubt")


ARMS: Mapping[str, Arm] = {
    "gpu-only": Arm("all", False, "measure every child"),
    "speculative": Arm("forecast", True, "measure the best k by forecast, keep the others with their forecast"),
    "filter": Arm("forecast", False, "measure the best k by forecast, drop the others"),
    "selective": Arm("doubt", True, "measure the k least certain ones, keep the others with their forecast"),
    "random": Arm("chance", False, "measure k at random, drop the others"),
    "oracle": Arm("truth", False, "measure the k that are fastest (replay only), drop the others"),
}


def forecast_log2(forecast: Forecast) -> float:
    """Return the mean of log2 S under a forecast: its point estimate, else that of the bins' midpoints."""
    if forecast.log2_speedup is not None:
        return forecast.log2_speedup
    assert forecast.probabilities is not None
    return math.fsum(p * float(m) for p, m in zip(forecast.probabilities, LOG2_MIDPOINTS, strict=True))


def log2_ok(forecast: Forecast) -> float:
    """Return log2 of the probability that the kernel works, 0 where the surrogate does not say."""
    return math.log2(1.0 - min(forecast.p_fail or 0.0, MOST_CERTAIN_FAILURE))


def promise(forecast: Forecast | None) -> float:
    """Return the key by which forecasts are ranked, higher is better: its rank score, else the mean of log2 S with the
    probability of failure applied; -inf for a forecast that is missing or unparsed.
    """
    if forecast is None or forecast.status != "ok":
        return -math.inf
    if forecast.rank_score is not None:
        return forecast.rank_score
    return forecast_log2(forecast) + log2_ok(forecast)


def doubt(forecast: Forecast | None) -> float:
    """Return the entropy (nats) over the eight bins and failure; the largest possible one without a forecast."""
    if forecast is None or forecast.status != "ok" or forecast.probabilities is None:
        return math.log(N_BINS + 1)
    fail = forecast.p_fail or 0.0
    shares = [fail, *((1 - fail) * p for p in forecast.probabilities)]
    return -math.fsum(p * math.log(p) for p in shares if p > 0)


def chance(seed: int, step: int, node_id: str) -> float:
    """Return a number in [0, 1) that depends on the seed of the search, the step and the node alone."""
    digest = hashlib.sha256(f"{seed}/{step}/{node_id}".encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56
