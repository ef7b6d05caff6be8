"""Ranking: correlations, pairwise accuracy, and the fraction of a pool's best speedup that few measurements recover.

Scores are higher for kernels forecast to be faster. Tied scores take the expectation over random orders, so that the
order of the rows never matters. A failed kernel has speedup NaN: measuring it spends budget and finds nothing
(speedup 0 in best@f), and correlations leave it out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from benchmark.metrics.tally import Floats, Ints, TieGroups, once
from benchmark.metrics.value import Value

FRACTIONS = (0.01, 0.02, 0.05, 0.10, 0.20, 0.50)
SATURATED = 0.95  # a pool in which random choice recovers more than this says nothing about a forecaster
CONSTANT = "constant input or fewer than two rows"
_BLOCK = 1024


def midranks(values: npt.ArrayLike, multiplicity: Ints) -> Floats:
    """Return the mid-rank of each row, shape (m, n), in samples that hold row i `multiplicity[:, i]` times."""
    groups = TieGroups.of(values, descending=False)
    size, before = groups.counts(multiplicity)
    ranks: Floats = (before + (size + 1) / 2)[:, groups.group]
    return ranks


def spearman_resampled(a: npt.ArrayLike, b: npt.ArrayLike, multiplicity: Ints) -> Floats:
    """Return Spearman's rho for each row of `multiplicity`, shape (m,); NaN marks a constant input."""
    if multiplicity.shape[1] < 2:
        return np.full(len(multiplicity), np.nan)
    total = np.maximum(multiplicity.sum(axis=1, keepdims=True), 1)
    x, y = midranks(a, multiplicity), midranks(b, multiplicity)
    x -= (multiplicity * x).sum(axis=1, keepdims=True) / total
    y -= (multiplicity * y).sum(axis=1, keepdims=True) / total
    xx, yy = (multiplicity * x * x).sum(axis=1), (multiplicity * y * y).sum(axis=1)
    xy = (multiplicity * x * y).sum(axis=1)
    varies = np.minimum(xx, yy) > 1e-9  # ranks are multiples of one half: anything smaller is rounding
    rho = np.full(len(xy), np.nan)
    rho[varies] = np.clip(xy[varies] / np.sqrt(xx[varies] * yy[varies]), -1.0, 1.0)
    return rho


def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> Value:
    """Return Spearman's rank correlation in [-1, 1], the Pearson correlation of mid-ranks (Spearman 1904)."""
    x = np.asarray(a, dtype=np.float64)
    return Value.of(float(spearman_resampled(x, b, once(len(x)))[0]), CONSTANT)


def kendall(a: npt.ArrayLike, b: npt.ArrayLike) -> Value:
    """Return Kendall's tau-b in [-1, 1]: (concordant - discordant) / sqrt((n0 - ties_a)(n0 - ties_b)), Kendall 1945."""
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    balance = untied_x = untied_y = 0.0
    for start in range(0, len(x), _BLOCK):
        dx = np.sign(x[start : start + _BLOCK, None] - x[None, :])
        dy = np.sign(y[start : start + _BLOCK, None] - y[None, :])
        balance += float((dx * dy).sum())
        untied_x += float(np.abs(dx).sum())
        untied_y += float(np.abs(dy).sum())
    return Value.of(balance / math.sqrt(untied_x * untied_y) if untied_x and untied_y else math.nan, CONSTANT)


def pairwise_accuracy(score: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> Value:
    """Return the share of resolved pairs that the score orders rightly, in [0, 1]; a tied score counts one half.

    A pair is resolved when the two speedup intervals [low, high] do not overlap. Undefined when no pair is resolved.
    """
    s = np.asarray(score, dtype=np.float64)
    lower, upper = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    right = resolved = 0.0
    for start in range(0, len(s), _BLOCK):
        rows = slice(start, start + _BLOCK)
        faster = lower[rows, None] > upper[None, :]
        right += float(faster[s[rows, None] > s[None, :]].sum()) + float(faster[s[rows, None] == s[None, :]].sum()) / 2
        resolved += float(faster.sum())
    return Value.of(right / resolved if resolved else math.nan, "no two intervals are apart")


def inclusion_probability(score: npt.ArrayLike, k: int) -> Floats:
    """Return each row's probability, shape (n,), to be among the k highest scores when ties are broken at random."""
    groups = TieGroups.of(score, descending=True)
    size, before = groups.counts(once(len(groups.group)))
    included: Floats = np.clip((k - before[0]) / size[0], 0.0, 1.0)[groups.group]
    return included


def top_k_recall(score: npt.ArrayLike, speedup: npt.ArrayLike, k: int) -> Value:
    """Return the expected overlap of the k highest scores with the k fastest kernels, over k, in [0, 1]."""
    s = _with_failures_as_zero(speedup)
    if not 1 <= k <= len(s):
        return Value(None, reason=f"k is {k} and the pool has {len(s)} kernels")
    return Value(float((inclusion_probability(score, k) * inclusion_probability(s, k)).sum() / k))


def _with_failures_as_zero(speedup: npt.ArrayLike) -> Floats:
    s = np.asarray(speedup, dtype=np.float64)
    bad = ~np.isnan(s) & ~(np.isfinite(s) & (s > 0))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(f"speedup of row {row} is {s[row]}, expected finite and positive, or NaN for a failed kernel")
    return np.where(np.isnan(s), 0.0, s)


def _expected_maximum(values: Floats, r: int) -> float:
    """Return E[max] of r values drawn without replacement: sum_i v_(i) P(the i largest are the first ones missed)."""
    m = len(values)
    descending = np.sort(values)[::-1]
    missed = np.cumprod((m - r - np.arange(m)).clip(min=0) / (m - np.arange(m)))
    return float(descending @ (np.concatenate([[1.0], missed[:-1]]) - missed))


def expected_best(score: npt.ArrayLike, values: npt.ArrayLike, k: int) -> float:
    """Return the expected largest value among the k highest scores, over random orders of tied scores."""
    s, v = np.asarray(score, dtype=np.float64), np.asarray(values, dtype=np.float64)
    cut = np.sort(s)[::-1][k - 1]
    above, tied = v[s > cut], v[s == cut]
    return _expected_maximum(np.maximum(tied, above.max(initial=0.0)), k - len(above))


def budget(fraction: float, n: int) -> int:
    """Return k = ceil(fraction n), the measurements that a fraction of a pool allows."""
    return min(n, max(1, math.ceil(round(fraction * n, 9))))


def recovered_fraction(score: npt.ArrayLike, speedup: npt.ArrayLike, fraction: float) -> Value:
    """Return best@f in [0, 1]: the best speedup among the k = ceil(f n) highest scores over the pool's best speedup."""
    values = _with_failures_as_zero(speedup)
    if not values.any():
        return Value(None, reason="no kernel of the pool has a speedup")
    return Value(expected_best(score, values, budget(fraction, len(values))) / float(values.max()))


def random_recovered_fraction(speedup: npt.ArrayLike, fraction: float) -> Value:
    """Return the exact expectation of best@f over uniformly random orders of the pool."""
    return recovered_fraction(np.zeros(len(np.asarray(speedup))), speedup, fraction)


def normalised_recovered_fraction(score: npt.ArrayLike, speedup: npt.ArrayLike, fraction: float) -> Value:
    """Return (best@f - E) / (1 - E) with E its expectation at random: 0 is chance, 1 is perfect, below 0 is worse.

    Undefined where E exceeds 0.95. The least value is -E / (1 - E), so one pool near that limit can weigh much.
    """
    chance = random_recovered_fraction(speedup, fraction)
    if chance.value is None:
        return chance
    if chance.value > SATURATED:
        return Value(None, reason=f"random choice recovers more than {SATURATED} of the best speedup")
    found = recovered_fraction(score, speedup, fraction).value
    assert found is not None  # defined wherever its expectation is
    return Value((found - chance.value) / (1 - chance.value))


def recovered_area(score: npt.ArrayLike, speedup: npt.ArrayLike, fractions: Sequence[float] = FRACTIONS) -> Value:
    """Return the area under normalised best@f over log f (trapezoid), divided by the range of log f, at most 1.

    Fractions at which chance saturates are left out; which they are depends on the pool alone, never on the forecaster.
    """
    points = [(math.log(f), normalised_recovered_fraction(score, speedup, f)) for f in fractions]
    x = np.array([at for at, v in points if v.value is not None])
    y = np.array([v.value for _, v in points if v.value is not None])
    if not len(x):
        return points[0][1]
    if len(x) == 1:
        return Value(float(y[0]))
    return Value(float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / (x[-1] - x[0])))
