"""Discovery: how well a score finds the few rows whose speedup exceeds a threshold.

Functions named `_resampled` take a `Tally` and return one value for each of its m resamples, NaN where it is undefined.
Tied scores take the expectation over random orders.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmark.metrics.tally import Floats, Ints, TieGroups, once
from benchmark.metrics.value import Value

NO_POSITIVE = "no positive row"
ONE_CLASS = "all rows are of one class"


@dataclass(frozen=True)
class Tally:
    """Rows and positives in each group of tied scores and before it, from the highest score down, each (m, groups)."""

    size: Ints
    before: Ints
    hits: Ints
    hits_before: Ints

    @classmethod
    def of(cls, score: npt.ArrayLike, positive: npt.ArrayLike, multiplicity: Ints | None = None) -> Tally:
        """Count the sample once, or resamples that hold row i `multiplicity[:, i]` times. Raises ValueError for NaN."""
        groups = TieGroups.of(score, descending=True)
        y = np.asarray(positive, dtype=bool)
        if y.shape != groups.group.shape:
            raise ValueError(f"{len(groups.group)} scores and labels of shape {y.shape}, expected the same length")
        weight = once(len(y)) if multiplicity is None else multiplicity
        return cls(*groups.counts(weight), *groups.counts(weight * y))

    @property
    def rows(self) -> Ints:
        """The number of rows of each resample, shape (m,)."""
        total: Ints = self.size.sum(axis=1)
        return total

    @property
    def positives(self) -> Ints:
        """The number of positive rows of each resample, shape (m,)."""
        total: Ints = self.hits.sum(axis=1)
        return total

    def hits_at(self, k: Ints) -> Floats:
        """Return the expected number of positives among the k[r] highest scores of each resample r, shape (m,)."""
        taken = np.clip((k[:, None] - self.before) / np.maximum(self.size, 1), 0.0, 1.0)
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
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, int(tally.rows.max(initial=0)) + 1))])
    slope = (t - 1) / np.maximum(m - 1, 1)
    precision = slope * m + (t0 + 1 - slope - slope * n0) * (harmonic[n0 + m] - harmonic[n0])
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
    rows, positives = tally.rows[:, None], tally.positives[:, None]
    nothing = np.zeros_like(rows)
    return average_precision_resampled(Tally(rows, nothing, positives, nothing))


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


def precision_at(score: npt.ArrayLike, positive: npt.ArrayLike, k: int) -> Value:
    """Return the expected share of positives among the k highest scores, in [0, 1]."""
    tally = Tally.of(score, positive)
    if not 1 <= k <= tally.rows[0]:
        return Value(None, reason=f"k is {k} and there are {tally.rows[0]} rows")
    return Value(float(tally.hits_at(np.array([k]))[0]) / k)


def recall_at(score: npt.ArrayLike, positive: npt.ArrayLike, k: int) -> Value:
    """Return the expected share of all positives that the k highest scores hold, in [0, 1]."""
    tally = Tally.of(score, positive)
    if not 1 <= k <= tally.rows[0]:
        return Value(None, reason=f"k is {k} and there are {tally.rows[0]} rows")
    return Value.of(float(_ratio(tally.hits_at(np.array([k])), tally.positives)[0]), NO_POSITIVE)


def lift_resampled(tally: Tally, fraction: float) -> Floats:
    """Return, for each resample, the precision among the top ceil(fraction n) over the base rate, shape (m,)."""
    k = np.maximum(np.ceil(np.round(fraction * tally.rows, 9)).astype(np.int64), 1)
    return _ratio(tally.hits_at(k) / k * tally.rows, tally.positives)


def lift(score: npt.ArrayLike, positive: npt.ArrayLike, fraction: float) -> Value:
    """Return how many times the base rate the precision among the top ceil(fraction n) is; 1 is chance."""
    return Value.of(float(lift_resampled(Tally.of(score, positive), fraction)[0]), NO_POSITIVE)


def permutation_p_value(
    score: npt.ArrayLike, positive: npt.ArrayLike, search: npt.ArrayLike, permutations: int = 1000, seed: int = 0
) -> Value:
    """Return the share of label permutations within searches whose average precision is at least the observed one.

    Counts the observed order among the permutations, so that the value is in (0, 1] (Phipson and Smyth 2010). Labels
    move only within a search: what a score gains by telling one search from another is in the null as well.
    """
    s, y = np.asarray(score, dtype=np.float64), np.asarray(positive, dtype=bool)
    observed = average_precision(s, y)
    if observed.value is None:
        return observed
    _, cluster = np.unique(np.asarray(search), return_inverse=True)
    rng = np.random.default_rng(seed)
    # Rows are keyed by search, then by score, so that the p-value does not depend on the order of the file.
    by_cluster = np.lexsort((y, s, cluster))
    s, y, cluster = s[by_cluster], y[by_cluster], cluster[by_cluster]
    at_least = 0
    for _ in range(permutations):
        shuffled = y[np.lexsort((rng.random(len(y)), cluster))]
        drawn = average_precision_resampled(Tally.of(s, shuffled))[0]
        at_least += bool(drawn >= observed.value - 1e-12)
    return Value((1 + at_least) / (1 + permutations))
