"""Discovery: how well a score finds the few rows whose speedup exceeds a threshold.

Functions named `_resampled` take a `Tally` and return one value for each of its m resamples, NaN where it is undefined.
Tied scores take the expectation over random orders.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmark.metrics.tally import Draws, Floats, TieGroups, harmonic_numbers
from benchmark.metrics.value import Value

NO_POSITIVE = "no positive row"
ONE_CLASS = "all rows are of one class"


@dataclass(frozen=True)
class ClusterCounts:
    """As `Tally`, for each cluster by itself: `rows` and `positives` (clusters,), the others (clusters, groups)."""

    rows: Floats
    positives: Floats
    size: Floats
    before: Floats
    hits: Floats
    hits_before: Floats

    @classmethod
    def of(cls, score: npt.ArrayLike, positive: npt.ArrayLike, draws: Draws) -> ClusterCounts:
        """Count the rows of each cluster. Raises ValueError for NaN and for unequal lengths."""
        groups = TieGroups.of(score, descending=True)
        y = np.asarray(positive, dtype=bool)
        if y.shape != groups.group.shape:
            raise ValueError(f"{len(groups.group)} scores and labels of shape {y.shape}, expected the same length")
        size, before = groups.by_cluster(draws)
        hits, hits_before = groups.by_cluster(draws, y)
        kept = hits.any(axis=0)
        parts = (part[:, kept] for part in (size, before, hits, hits_before))
        return cls(size.sum(axis=1), hits.sum(axis=1), *parts)

    @property
    def width(self) -> int:
        """How many numbers a resample of all arrays takes."""
        return 4 * int(self.size.shape[1])

    def drawn(self, weight: Floats) -> Tally:
        """Return the counts of resamples that hold each cluster as often as `weight`, (m, clusters), says."""
        return Tally(
            weight @ self.rows,
            weight @ self.positives,
            *(weight @ part for part in (self.size, self.before, self.hits, self.hits_before)),
        )


@dataclass(frozen=True)
class Tally:
    """Counts of rows and positives along the order of scores, from the highest down.

    `rows` and `positives`, shape (m,), are the totals. The others, shape (m, groups), count rows and positives in each
    group of tied scores and before it; groups without a positive matter to no metric here and are left out.
    """

    rows: Floats
    positives: Floats
    size: Floats
    before: Floats
    hits: Floats
    hits_before: Floats

    @classmethod
    def of(cls, score: npt.ArrayLike, positive: npt.ArrayLike, draws: Draws | None = None) -> Tally:
        """Count the sample once, or each of its resamples. Raises ValueError for NaN and for unequal lengths."""
        drawn = draws or Draws.sample(len(np.asarray(score)))
        return ClusterCounts.of(score, positive, drawn).drawn(drawn.weight)

    @classmethod
    def all_tied(cls, rows: Floats, positives: Floats) -> Tally:
        """Return the tally of a constant score, from the totals of each resample."""
        nothing = np.zeros((len(rows), 1))
        return cls(rows, positives, rows[:, None], nothing, positives[:, None], nothing)

    def hits_at(self, k: npt.ArrayLike) -> Floats:
        """Return the expected number of positives among the k[r] highest scores of each resample r, shape (m,)."""
        taken = np.clip((np.asarray(k)[:, None] - self.before) / np.maximum(self.size, 1), 0.0, 1.0)
        expected: Floats = (self.hits * taken).sum(axis=1)
        return expected


def _ratio(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Floats:
    top, bottom = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    ratio: Floats = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)
    return ratio


def average_precision_resampled(tally: Tally) -> Floats:
    """Return average precision for each resample, shape (m,); see `average_precision`."""
    m, n0, t, t0 = tally.size, tally.before, tally.hits, tally.hits_before
    # In a tie group of m rows with t positives, place i holds a positive with probability t / m, and then
    # (i - 1)(t - 1)/(m - 1) positives are expected before it in the group: the sum over i of
    # (t / m)(t0 + 1 + (i - 1) slope)/(n0 + i) has a closed form in harmonic numbers.
    harmonic = harmonic_numbers(int(tally.rows.max(initial=0)))
    start, end = n0.astype(np.int64), (n0 + m).astype(np.int64)
    slope = (t - 1) / np.maximum(m - 1, 1)
    precision = slope * m + (t0 + 1 - slope - slope * n0) * (harmonic[end] - harmonic[start])
    expected = np.where(t > 0, t / np.maximum(m, 1) * precision, 0.0).sum(axis=1)
    return np.minimum(_ratio(expected, tally.positives), 1.0)


def average_precision(score: npt.ArrayLike, positive: npt.ArrayLike) -> Value:
    """Return average precision in (0, 1]: the mean, over the positives, of the precision at each one's place.

    Without ties this is scikit-learn's `average_precision_score`. Ties take the expectation over random orders, where
    scikit-learn takes the whole group at once: a constant score gets what random guessing gets on average, which is
    slightly above the base rate, and adding noise to a score gains nothing. Undefined without a positive.
    """
    return Value.of(float(average_precision_resampled(Tally.of(score, positive))[0]), NO_POSITIVE)


def random_average_precision_resampled(tally: Tally) -> Floats:
    """Return the expected average precision of a random order, which is what a constant score gets, shape (m,)."""
    return average_precision_resampled(Tally.all_tied(tally.rows, tally.positives))


def auroc_resampled(tally: Tally) -> Floats:
    """Return the area under the ROC curve for each resample, shape (m,); see `auroc`."""
    misses = tally.size - tally.hits
    negatives = tally.rows - tally.positives
    beaten = negatives[:, None] - (tally.before - tally.hits_before) - misses / 2
    return _ratio((tally.hits * beaten).sum(axis=1), tally.positives * negatives)


def auroc(score: npt.ArrayLike, positive: npt.ArrayLike) -> Value:
    """Return P(score of a positive > score of a negative) + P(equal) / 2, in [0, 1] (Hanley and McNeil 1982)."""
    return Value.of(float(auroc_resampled(Tally.of(score, positive))[0]), ONE_CLASS)


def base_rate_resampled(tally: Tally) -> Floats:
    """Return the share of positives for each resample, shape (m,); NaN without a positive, as for average precision."""
    return np.where(tally.positives > 0, _ratio(tally.positives, tally.rows), np.nan)


def _top(tally: Tally, fraction: float) -> Floats:
    return np.maximum(np.ceil(np.round(fraction * tally.rows, 9)), 1)


def precision_at(score: npt.ArrayLike, positive: npt.ArrayLike, k: int) -> Value:
    """Return the expected share of positives among the k highest scores, in [0, 1]."""
    tally = Tally.of(score, positive)
    if not 1 <= k <= tally.rows[0]:
        return Value(None, reason=f"k is {k} and there are {tally.rows[0]:.0f} rows")
    return Value(float(tally.hits_at([k])[0]) / k)


def precision_resampled(tally: Tally, fraction: float) -> Floats:
    """Return, for each resample, the precision among the top ceil(fraction n), shape (m,); NaN without a positive."""
    k = _top(tally, fraction)
    return np.where(tally.positives > 0, tally.hits_at(k) / k, np.nan)


def recall_at(score: npt.ArrayLike, positive: npt.ArrayLike, k: int) -> Value:
    """Return the expected share of all positives that the k highest scores hold, in [0, 1]."""
    tally = Tally.of(score, positive)
    if not 1 <= k <= tally.rows[0]:
        return Value(None, reason=f"k is {k} and there are {tally.rows[0]:.0f} rows")
    return Value.of(float(_ratio(tally.hits_at([k]), tally.positives)[0]), NO_POSITIVE)


def recall_resampled(tally: Tally, fraction: float) -> Floats:
    """Return, for each resample, the share of the positives among the top ceil(fraction n), shape (m,)."""
    return _ratio(tally.hits_at(_top(tally, fraction)), tally.positives)


def lift_resampled(tally: Tally, fraction: float) -> Floats:
    """Return, for each resample, the precision among the top ceil(fraction n) over the base rate, shape (m,)."""
    k = _top(tally, fraction)
    return _ratio(tally.hits_at(k) / k * tally.rows, tally.positives)


def lift(score: npt.ArrayLike, positive: npt.ArrayLike, fraction: float) -> Value:
    """Return how many times the base rate the precision among the top ceil(fraction n) is, at least 0; 1 is chance."""
    return Value.of(float(lift_resampled(Tally.of(score, positive), fraction)[0]), NO_POSITIVE)


def precision_recall_curve(score: npt.ArrayLike, positive: npt.ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Return the scores in descending order without ties, and precision and recall of the rows at or above each.

    All of shape (distinct scores,); recall ends at 1. Raises ValueError without a positive, for which recall is
    undefined. scikit-learn's `precision_recall_curve` without its end points.
    """
    s, y = np.asarray(score, dtype=np.float64), np.asarray(positive, dtype=bool)
    if not y.any():
        raise ValueError(f"{NO_POSITIVE}, so that recall is undefined")
    groups = TieGroups.of(s, descending=True)
    sample = Draws.sample(len(y))
    size, hits = groups.by_cluster(sample)[0][0], groups.by_cluster(sample, y)[0][0]
    found = np.cumsum(hits)
    return np.unique(s)[::-1], found / np.cumsum(size), found / found[-1]
