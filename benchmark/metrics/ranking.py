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

from benchmark.metrics.dominance import dominated
from benchmark.metrics.tally import Draws, Floats, Ints, TieGroups, in_blocks
from benchmark.metrics.value import Value

FRACTIONS = (0.01, 0.02, 0.05, 0.10, 0.20, 0.50)
SATURATED = 0.95  # a pool in which random choice recovers more than this says nothing about a forecaster
CONSTANT = "constant input or fewer than two rows"
NONE_APART = "no two intervals are apart"
NO_SUCCESS = "no kernel of the pool has a speedup"
SATURATION = f"random choice recovers more than {SATURATED} of the best speedup"


def _centred_ranks(values: npt.ArrayLike, draws: Draws) -> Floats:
    """Return c, shape (clusters, n): with weights w, row i has the mid-rank (N + 1) / 2 + sum_s w_s c[s, i].

    c[s, i] is how many rows of cluster s are below row i, plus half of those equal to it, minus half of all.
    """
    groups = TieGroups.of(values, descending=False)
    size, before = groups.by_cluster(draws)
    centred: Floats = (before + size / 2 - size.sum(axis=1, keepdims=True) / 2)[:, groups.group]
    return centred


def spearman_resampled(a: npt.ArrayLike, b: npt.ArrayLike, draws: Draws) -> Floats:
    """Return Spearman's rho for each resample, shape (m,); NaN marks a constant input.

    Ranks are linear in the weights of the clusters, so that a covariance of ranks is a form of degree three in them,
    whose coefficients are summed once. They are multiples of one quarter, and sums of them exact.
    """
    x, y = _centred_ranks(a, draws), _centred_ranks(b, draws)
    s = draws.clusters
    rows = [np.flatnonzero(draws.cluster == cluster) for cluster in range(s)]

    def covariance(p: Floats, q: Floats) -> Floats:
        form = np.stack([p[:, r] @ q[:, r].T for r in rows]).reshape(s, s * s)

        def evaluate(part: Draws) -> Floats:
            matrix = (part.weight @ form).reshape(-1, s, s)
            value: Floats = ((matrix @ part.weight[:, :, None])[:, :, 0] * part.weight).sum(axis=1)
            return value

        return in_blocks(draws, s * s, evaluate)

    xx, yy, xy = covariance(x, x), covariance(y, y), covariance(x, y)
    varies = np.minimum(xx, yy) > 0
    rho = np.full(len(xy), np.nan)
    rho[varies] = np.clip(xy[varies] / np.sqrt(xx[varies] * yy[varies]), -1.0, 1.0)
    return rho


def spearman(a: npt.ArrayLike, b: npt.ArrayLike) -> Value:
    """Return Spearman's rank correlation in [-1, 1], the Pearson correlation of mid-ranks (Spearman 1904)."""
    x = np.asarray(a, dtype=np.float64)
    return Value.of(float(spearman_resampled(x, b, Draws.sample(len(x)))[0]), CONSTANT)


def kendall(a: npt.ArrayLike, b: npt.ArrayLike) -> Value:
    """Return Kendall's tau-b in [-1, 1]: (concordant - discordant) / sqrt((n0 - ties_a)(n0 - ties_b)), Kendall 1945.

    n0 is the number of pairs. O(n log n).
    """
    x, y = TieGroups.of(a, descending=False), TieGroups.of(b, descending=False)
    pairs = len(x.group) * (len(x.group) - 1) // 2
    tied_x, tied_y, tied_both = (_tied_pairs(g) for g in (x.group, y.group, x.group * y.count + y.group))
    concordant = int(dominated(x.group, y.group, x.group, y.group).sum())
    discordant = pairs - tied_x - tied_y + tied_both - concordant
    scale = math.sqrt((pairs - tied_x) * (pairs - tied_y))
    return Value.of((concordant - discordant) / scale if scale else math.nan, CONSTANT)


def _tied_pairs(group: Ints) -> int:
    counts = np.unique(group, return_counts=True)[1]
    return int((counts * (counts - 1) // 2).sum())


def pairwise_accuracy(score: npt.ArrayLike, low: npt.ArrayLike, high: npt.ArrayLike) -> Value:
    """Return the share of resolved pairs that the score orders rightly, in [0, 1]; a tied score counts one half.

    A pair is resolved when the two speedup intervals [low, high] do not overlap; the others are ties, and left out.
    Undefined when no pair is resolved. O(n log n).
    """
    s, lower, upper = (np.asarray(v, dtype=np.float64) for v in (score, low, high))
    resolved = int(np.searchsorted(np.sort(upper), lower, side="left").sum())
    right = int(dominated(lower, s, upper, s).sum())
    tied = len(np.unique(s)) < len(s)
    wrong = int(dominated(lower, -s, upper, -s).sum()) if tied else resolved - right
    return Value.of((resolved + right - wrong) / (2 * resolved) if resolved else math.nan, NONE_APART)


def inclusion_probability(score: npt.ArrayLike, k: int) -> Floats:
    """Return each row's probability, shape (n,), to be among the k highest scores when ties are broken at random."""
    groups = TieGroups.of(score, descending=True)
    size, before = groups.by_cluster(Draws.sample(len(groups.group)))
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


def _expected_worth(values: Floats, worth: Floats, r: int) -> float:
    """Return E[worth of the largest value] of r values drawn without replacement.

    sum_i worth_(i) P(the i largest values are the first ones missed), with values in descending order.
    """
    m = len(values)
    missed = np.cumprod((m - r - np.arange(m)).clip(min=0) / (m - np.arange(m)))
    return float(worth[np.lexsort((worth, values))[::-1]] @ (np.concatenate([[1.0], missed[:-1]]) - missed))


def expected_best(score: npt.ArrayLike, values: npt.ArrayLike, k: int, worth: npt.ArrayLike | None = None) -> float:
    """Return the expected worth of the largest value among the k highest scores, over random orders of tied scores.

    `worth` is what each row is worth once chosen, by default its value.
    """
    s, v = np.asarray(score, dtype=np.float64), np.asarray(values, dtype=np.float64)
    w = v if worth is None else np.asarray(worth, dtype=np.float64)
    cut = np.partition(s, len(s) - k)[len(s) - k]
    above, tied = s > cut, s == cut
    tied_value, tied_worth = v[tied], w[tied]
    if above.any():
        best = np.lexsort((w[above], v[above]))[-1]
        beaten = tied_value <= v[above][best]
        tied_value = np.where(beaten, v[above][best], tied_value)
        tied_worth = np.where(beaten, w[above][best], tied_worth)
    return _expected_worth(tied_value, tied_worth, k - int(above.sum()))


def budget(fraction: float, n: int) -> int:
    """Return k = ceil(fraction n), the measurements that a fraction of a pool allows."""
    return min(n, max(1, math.ceil(round(fraction * n, 9))))


def recovered_fractions(
    score: npt.ArrayLike, speedup: npt.ArrayLike, fractions: Sequence[float], second: npt.ArrayLike | None = None
) -> tuple[Floats, Floats]:
    """Return best@f and its exact expectation over uniformly random orders, both (fractions,); see below.

    NaN where no kernel of the pool has a speedup.
    """
    values, s = _with_failures_as_zero(speedup), np.asarray(score, dtype=np.float64)
    if not values.any():
        return np.full(len(fractions), np.nan), np.full(len(fractions), np.nan)
    worth = values if second is None else np.where(values > 0, np.asarray(second, dtype=np.float64), 0.0)
    best = worth[np.lexsort((worth, values))[-1]]
    budgets = [budget(f, len(values)) for f in fractions]
    found = np.array([expected_best(s, values, k, worth) for k in budgets])
    chance = np.array([_expected_worth(values, worth, k) for k in budgets])
    return found / best, chance / best


def recovered_fraction(
    score: npt.ArrayLike, speedup: npt.ArrayLike, fraction: float, second: npt.ArrayLike | None = None
) -> Value:
    """Return best@f, at least 0: the best speedup among the k = ceil(f n) highest scores over the pool's best.

    With `second`, the speedups by a second measurement, the fastest kernel is chosen by the first one and is worth what
    the second one says, on both sides of the fraction: the largest of many noisy values is too large by its own luck.
    Then best@f may exceed 1 by as much as the first measurement picked the wrong kernel; otherwise it is at most 1.
    """
    found, _ = recovered_fractions(score, speedup, [fraction], second)
    return Value.of(float(found[0]), NO_SUCCESS)


def random_recovered_fraction(speedup: npt.ArrayLike, fraction: float, second: npt.ArrayLike | None = None) -> Value:
    """Return the exact expectation of best@f over uniformly random orders of the pool."""
    _, chance = recovered_fractions(np.zeros(len(np.asarray(speedup))), speedup, [fraction], second)
    return Value.of(float(chance[0]), NO_SUCCESS)


def normalised_recovered_fraction(
    score: npt.ArrayLike, speedup: npt.ArrayLike, fraction: float, second: npt.ArrayLike | None = None
) -> Value:
    """Return (best@f - E) / (1 - E) with E its expectation at random: 0 is chance, 1 is perfect, below 0 is worse.

    Undefined where E exceeds 0.95. The least value is -E / (1 - E), so one pool near that limit can weigh much.
    """
    return normalised(*(part[0] for part in recovered_fractions(score, speedup, [fraction], second)))


def normalised(found: float, chance: float) -> Value:
    """Return (found - chance) / (1 - chance), undefined where chance is, or where it exceeds 0.95."""
    if math.isnan(chance):
        return Value(None, reason=NO_SUCCESS)
    return Value(None, reason=SATURATION) if chance > SATURATED else Value((found - chance) / (1 - chance))


def recovered_area(
    score: npt.ArrayLike,
    speedup: npt.ArrayLike,
    fractions: Sequence[float] = FRACTIONS,
    second: npt.ArrayLike | None = None,
) -> Value:
    """Return the area under normalised best@f over log f (trapezoid), divided by the range of log f; 1 is perfect.

    Fractions at which chance saturates are left out; which they are depends on the pool alone, never on the forecaster.
    """
    both = zip(*recovered_fractions(score, speedup, fractions, second), strict=True)
    return area_over_log(fractions, [normalised(found, chance) for found, chance in both])


def area_over_log(fractions: Sequence[float], values: Sequence[Value]) -> Value:
    """Return the area under values over log f (trapezoid), divided by the range of log f, without undefined values.

    One defined value is its own area; without any, the first one's reason says why.
    """
    x = np.array([math.log(f) for f, v in zip(fractions, values, strict=True) if v.value is not None])
    y = np.array([v.value for v in values if v.value is not None])
    if not len(x):
        return values[0]
    if len(x) == 1:
        return Value(float(y[0]))
    return Value(float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / (x[-1] - x[0])))
