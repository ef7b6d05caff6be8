"""Calibration: proper scores of binned forecasts against the label distribution, and reliability of the top bin.

A label is a distribution over the 8 bins: the mass that the speedup's interval puts in each, so that a speedup on a bin
edge is not a coin flip. A hard label is the same with a one-hot row. With forecast p and label q every score is the
expectation over bins drawn from q of the usual score, so its least value, at p = q, is above 0 when q is spread; the
excess over that least value is what a forecaster can be blamed for. Lower is better throughout.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmark.bins import N_BINS
from benchmark.metrics.tally import Draws, Floats, Ints
from benchmark.metrics.value import Value

SUM_TOLERANCE = 1e-4
LOG_FLOOR = 1e-4
LOG_LOSS_VERSION = f"log_loss-floor-{LOG_FLOOR:g}"
ECE_BINS = 10


def _distribution(rows: npt.ArrayLike, name: str) -> Floats:
    p = np.atleast_2d(np.asarray(rows, dtype=np.float64))
    # NaN fails every comparison, and an infinity makes the sum infinite or NaN.
    off = np.abs(p.sum(axis=1) - 1)
    if p.size and not (p.min() >= 0 and off.max() <= SUM_TOLERANCE):
        wrong = ~((p >= 0).all(axis=1) & (off <= SUM_TOLERANCE))
        row = int(wrong.argmax())
        raise ValueError(f"{name}, row {row}: {p[row].tolist()} is not a distribution; its sum is {p[row].sum():.6g}")
    return p


def _both(forecast: npt.ArrayLike, label: npt.ArrayLike) -> tuple[Floats, Floats]:
    p, q = _distribution(forecast, "forecast"), _distribution(label, "label")
    if p.shape != q.shape:
        raise ValueError(f"forecasts have shape {p.shape} and labels {q.shape}, expected the same")
    return p, q


def one_hot(bins: npt.ArrayLike) -> Floats:
    """Return hard labels, shape (n, 8), from bins 1 to 8."""
    b = np.atleast_1d(np.asarray(bins, dtype=np.int64))
    if ((b < 1) | (b > N_BINS)).any():
        raise ValueError(f"a bin is outside 1..{N_BINS}")
    return np.eye(N_BINS)[b - 1]


def half_brier(forecast: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
    """Return (1/2) E_y sum_b (p_b - [y = b])^2 for each row, in [0, 1] (Brier 1950, halved)."""
    p, q = _both(forecast, label)
    score: Floats = ((p * p).sum(axis=1) - 2 * (p * q).sum(axis=1) + 1) / 2
    return np.clip(score, 0.0, 1.0)


def ranked_probability_score(forecast: npt.ArrayLike, label: npt.ArrayLike) -> Floats:
    """Return E_y sum_{k<K} (P_k - [y <= k])^2 / (K - 1) for each row, P cumulative, in [0, 1] (Epstein 1969)."""
    p, q = _both(forecast, label)
    cumulative, target = np.cumsum(p, axis=1)[:, :-1], np.cumsum(q, axis=1)[:, :-1]
    score: Floats = ((cumulative - target) ** 2 + target * (1 - target)).mean(axis=1)
    return np.clip(score, 0.0, 1.0)


def log_loss(forecast: npt.ArrayLike, label: npt.ArrayLike, floor: float = LOG_FLOOR) -> Floats:
    """Return -sum_b q_b ln max(p_b, floor) for each row, in nats, in [0, -ln floor].

    The floor bounds what one miss can cost and may decide an order, so it is part of the metric's version; the bounded
    scores stand beside it. Nothing is renormalised.
    """
    p, q = _both(forecast, label)
    if not 0 < floor < 1:
        raise ValueError(f"the floor is {floor}, expected between 0 and 1")
    loss: Floats = -(q * np.log(np.maximum(p, floor))).sum(axis=1)
    return np.maximum(loss, 0.0)


def least_log_loss(label: npt.ArrayLike, floor: float = LOG_FLOOR) -> Floats:
    """Return the least log loss that any forecast can have against each label, in nats.

    Close to the entropy of the label; the floor is free of charge, so the best forecast leaves bins of tiny mass at
    zero.
    """
    q = np.sort(_distribution(label, "label"), axis=1)[:, ::-1]
    logs = np.log(np.maximum(q, 1e-300))
    kept = np.cumsum(q, axis=1)
    least = np.full(len(q), np.inf)
    for k in range(1, q.shape[1] + 1):  # the forecast that keeps the k largest bins
        costs = np.maximum(logs[:, :k] - np.log(kept[:, k - 1 : k]), np.log(floor))
        least = np.minimum(least, -(q[:, :k] * costs).sum(axis=1) - q[:, k:].sum(axis=1) * np.log(floor))
    floored: Floats = np.maximum(least, 0.0)
    return floored


def entropy(forecast: npt.ArrayLike) -> Floats:
    """Return -sum_b p_b ln p_b for each row, in nats, in [0, ln 8]: 0 is certain, ln 8 knows nothing."""
    p = _distribution(forecast, "forecast")
    nats: Floats = -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=1)
    return np.maximum(nats, 0.0)


def equal_width_bin(confidence: npt.ArrayLike, bins: int = ECE_BINS) -> Ints:
    """Return the index of each confidence's equal-width bin [i / bins, (i + 1) / bins), of which the last is closed."""
    c = np.asarray(confidence, dtype=np.float64)
    if not ((c >= 0) & (c <= 1)).all():
        raise ValueError("a confidence is outside [0, 1]")
    return np.searchsorted(np.arange(1, bins) / bins, c, side="right").astype(np.int64)


def equal_mass_bin(confidence: npt.ArrayLike, bins: int = ECE_BINS) -> Ints:
    """Return the index of each confidence's bin when bins hold about as many rows each; equal values stay together."""
    c = np.asarray(confidence, dtype=np.float64)
    ordered = np.sort(c)
    return (np.searchsorted(ordered, c, side="left") * bins // max(len(c), 1)).astype(np.int64)


def calibration_gaps(
    confidence: npt.ArrayLike, correct: npt.ArrayLike, bin_index: Ints, draws: Draws, row_weight: Floats | None = None
) -> Floats:
    """Return, for each resample and bin, sum over rows of (correct - confidence) / rows, shape (m, bins).

    The expected calibration error is the sum over bins of its absolute value. NaN where a resample has no row.
    """
    gap = np.asarray(correct, dtype=np.float64) - np.asarray(confidence, dtype=np.float64)
    return draws.mean((bin_index[:, None] == np.arange(ECE_BINS)) * gap[:, None], row_weight)


def classwise_gaps(forecast: npt.ArrayLike, label: npt.ArrayLike, draws: Draws) -> Floats:
    """Return the gaps of each class in ten equal-width bins of its probability, over the classes, shape (m, 8 x 10).

    The class-wise calibration error is the sum of their absolute values.
    """
    p, q = _both(forecast, label)
    index = equal_width_bin(np.minimum(p, 1.0))
    members = (index[:, :, None] == np.arange(ECE_BINS)) * (q - p)[:, :, None] / p.shape[1]
    return draws.mean(members.reshape(len(p), p.shape[1] * ECE_BINS))


def classwise_calibration_error(forecast: npt.ArrayLike, label: npt.ArrayLike) -> Value:
    """Return (1/8) sum over classes b and bins of (rows / n) |mean q_b - mean p_b|, in [0, 1] (Kull et al. 2019).

    Ten equal-width bins of each class's own probability, of which the last is closed; q is the label distribution.
    """
    p, q = _both(forecast, label)
    if not len(p):
        return Value(None, reason="no forecast")
    return Value(float(np.abs(classwise_gaps(p, q, Draws.sample(len(p)))).sum()))


def expected_calibration_error(confidence: npt.ArrayLike, correct: npt.ArrayLike, *, equal_mass: bool = False) -> Value:
    """Return sum over bins of (rows in bin / rows) |mean correct - mean confidence|, in [0, 1] (Naeini et al. 2015).

    `correct` is 0 or 1, or the label mass of the forecast's top bin. Ten equal-width bins of which the last is closed,
    or ten bins of equal mass.
    """
    c = np.asarray(confidence, dtype=np.float64)
    if not len(c):
        return Value(None, reason="no forecast")
    index = equal_mass_bin(c) if equal_mass else equal_width_bin(c)
    return Value(float(np.abs(calibration_gaps(c, correct, index, Draws.sample(len(c)))).sum()))


def top_label(forecast: npt.ArrayLike, label: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the confidence in the most probable bin and the label mass of it, both (n,); tied bins share."""
    p, q = _both(forecast, label)
    confidence = p.max(axis=1)
    top = p >= confidence[:, None] - 1e-12
    return np.minimum(confidence, 1.0), (q * top).sum(axis=1) / top.sum(axis=1)
