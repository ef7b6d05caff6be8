"""CORP: reliability by isotonic regression, with no bins to choose (Dimitriadis, Gneiting and Jordan, PNAS 2021).

The pool-adjacent-violators fit of outcomes on forecast probabilities is the best recalibration of a forecaster that
keeps its order. What it gains over the forecast is the miscalibration, what it gains over the base rate the
discrimination, and the base rate's own score the uncertainty: score = miscalibration - discrimination + uncertainty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmark.metrics.tally import Floats

LEVEL = 0.9
BAND_RESAMPLES = 200


@dataclass(frozen=True)
class Decomposition:
    """Parts of a mean score, all at least 0: score = miscalibration - discrimination + uncertainty."""

    miscalibration: float
    discrimination: float
    uncertainty: float

    @property
    def score(self) -> float:
        """The mean score that was decomposed."""
        return self.miscalibration - self.discrimination + self.uncertainty


@dataclass(frozen=True)
class ReliabilityCurve:
    """The distinct forecast probabilities in order, and for each the recalibrated one, the rows, and the band; (k,).

    `low` and `high` bound where the curve of a calibrated forecaster lies with the stated probability at each point.
    """

    probability: Floats
    recalibrated: Floats
    rows: npt.NDArray[np.int64]
    low: Floats
    high: Floats


def _checked(probability: npt.ArrayLike, outcome: npt.ArrayLike) -> tuple[Floats, Floats]:
    p, y = np.asarray(probability, dtype=np.float64), np.asarray(outcome, dtype=np.float64)
    if p.ndim != 1 or p.shape != y.shape:
        raise ValueError(f"probabilities have shape {p.shape} and outcomes {y.shape}, expected one dimension, the same")
    for name, values in (("probability", p), ("outcome", y)):
        wrong = ~((values >= 0) & (values <= 1))
        if wrong.any():
            raise ValueError(f"the {name} of row {int(wrong.argmax())} is {values[wrong][0]}, expected one in [0, 1]")
    return p, y


def isotonic_fit(probability: npt.ArrayLike, outcome: npt.ArrayLike, weight: npt.ArrayLike | None = None) -> Floats:
    """Return the pool-adjacent-violators fit of the outcomes on the probabilities, shape (n,), in [0, 1].

    The non-decreasing function of the probability with the least weighted sum of squares; equal probabilities get one
    value. Outcomes are 0 or 1, or the label's mass of the event. Raises ValueError for numbers outside [0, 1].
    """
    from scipy.optimize import isotonic_regression

    p, y = _checked(probability, outcome)
    if not len(p):
        return np.zeros(0)
    w = np.ones(len(p)) if weight is None else np.asarray(weight, dtype=np.float64)
    _, group = np.unique(p, return_inverse=True)
    mass = np.bincount(group, w)
    fitted: Floats = isotonic_regression(np.bincount(group, w * y) / mass, weights=mass).x
    return np.clip(fitted, 0.0, 1.0)[group]


def brier_decomposition(
    probability: npt.ArrayLike, outcome: npt.ArrayLike, weight: npt.ArrayLike | None = None
) -> Decomposition:
    """Return the CORP parts of the mean Brier score of a binary event, E (p - [event])^2, each in [0, 1].

    With an outcome q between 0 and 1 the event has probability q, so that the uncertainty is qbar (1 - qbar) for the
    mean outcome qbar, as it is for outcomes 0 and 1. Raises ValueError without rows.
    """
    p, q = _checked(probability, outcome)
    if not len(p):
        raise ValueError("no row to decompose a score of")
    w = np.full(len(p), 1 / len(p)) if weight is None else np.asarray(weight, dtype=np.float64) / np.sum(weight)
    recalibrated, base = isotonic_fit(p, q, w), float(w @ q)
    spread = float(w @ (q - recalibrated) ** 2)
    # Each part is a difference of two mean squares of which the fit's is the least; below 0 is rounding.
    return Decomposition(
        miscalibration=max(0.0, float(w @ (q - p) ** 2) - spread),
        discrimination=max(0.0, float(w @ (q - base) ** 2) - spread),
        uncertainty=base * (1 - base),
    )


def rps_decomposition(
    forecast: npt.ArrayLike, label: npt.ArrayLike, weight: npt.ArrayLike | None = None
) -> Decomposition:
    """Return the parts of the mean ranked probability score of shape (n, K) forecasts against label distributions.

    The score is the mean over the K - 1 edges of the Brier score of "at or below the edge", and so are its parts.
    """
    cumulative = np.clip(np.cumsum(np.asarray(forecast, dtype=np.float64), axis=1)[:, :-1], 0.0, 1.0)
    target = np.clip(np.cumsum(np.asarray(label, dtype=np.float64), axis=1)[:, :-1], 0.0, 1.0)
    edges = [brier_decomposition(p, q, weight) for p, q in zip(cumulative.T, target.T, strict=True)]
    return Decomposition(
        *(float(np.mean([getattr(e, n) for e in edges])) for n in ("miscalibration", "discrimination", "uncertainty"))
    )


def reliability_curve(
    probability: npt.ArrayLike,
    outcome: npt.ArrayLike,
    level: float = LEVEL,
    resamples: int = BAND_RESAMPLES,
    seed: int = 0,
) -> ReliabilityCurve:
    """Return the recalibrated probability at each distinct forecast, with a calibrated forecaster's consistency band.

    The band holds the central `level` of refitted curves whose outcomes are drawn from the forecasts themselves. It
    takes rows as independent: where rows share a search, it is too narrow. Raises ValueError without rows.
    """
    p, y = _checked(probability, outcome)
    if not len(p):
        raise ValueError("no row to draw a reliability curve of")
    from scipy.optimize import isotonic_regression

    order = np.argsort(p, kind="stable")
    distinct, first, rows = np.unique(p[order], return_index=True, return_counts=True)
    rng = np.random.default_rng(seed)
    drawn = np.empty((resamples, len(distinct)))
    for i in range(resamples):
        hits = np.add.reduceat((rng.random(len(p)) < p[order]).astype(np.float64), first)
        drawn[i] = isotonic_regression(hits / rows, weights=rows).x
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return ReliabilityCurve(distinct, isotonic_fit(p, y)[order][first], rows.astype(np.int64), low, high)
