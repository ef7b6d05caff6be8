"""Could a score have found its discoveries by luck? Average precision when labels are permuted within searches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from benchmark.metrics.bootstrap import nan_mean
from benchmark.metrics.discovery import NO_POSITIVE, Tally, average_precision_resampled
from benchmark.metrics.tally import Floats, TieGroups, harmonic_numbers
from benchmark.metrics.value import Value

Places = npt.NDArray[np.int32]

PERMUTATIONS = 200
_TOLERANCE = 1e-12


def permuted_places(search: npt.ArrayLike, permutations: int = PERMUTATIONS, seed: int = 0) -> Places:
    """Return random permutations of places within searches, shape (permutations, n), for rows in order of search."""
    sizes = np.unique(np.asarray(search), return_counts=True)[1].tolist()
    rng = np.random.default_rng(seed)
    parts, start = [np.zeros((permutations, 0), dtype=np.int32)], 0
    for size in sizes:
        parts.append(rng.permuted(np.tile(np.arange(start, start + size, dtype=np.int32), (permutations, 1)), axis=1))
        start += size
    return np.concatenate(parts, axis=1)


def landing_rows(score: npt.ArrayLike, positive: npt.ArrayLike, search: npt.ArrayLike, places: Places) -> Places:
    """Return the rows on which the positive labels land, shape (permutations, positives), from `permuted_places`.

    Within a search, rows are counted in order of score, and positive labels first, whatever the order of the file: what
    is drawn depends on the values alone.
    """
    s, y, cluster = np.asarray(score, dtype=np.float64), np.asarray(positive, dtype=bool), np.asarray(search)
    by_label, by_score = np.lexsort((s, ~y, cluster)), np.lexsort((y, s, cluster)).astype(np.int32)
    landed: Places = by_score[places[:, y[by_label]]]
    return landed


def average_precision_of(score: npt.ArrayLike, places: Places) -> Floats:
    """Return average precision, shape (p,), for sets of positive rows `places`, shape (p, positives); NaN for none."""
    permutations, positives = places.shape
    if not positives:
        return np.full(permutations, np.nan)
    groups = TieGroups.of(score, descending=True)
    drawn = np.sort(groups.group.astype(np.int32)[places], axis=1)
    if groups.count == len(groups.group):  # no ties: the j-th positive at place i has the precision j / i
        untied: Floats = (np.arange(1, positives + 1) / (drawn + 1)).mean(axis=1)
        return untied
    size = np.bincount(groups.group, minlength=groups.count)
    before = np.cumsum(size) - size
    # The runs of equal group along each sorted row are the tie groups that hold a positive.
    first = np.ones(drawn.shape, dtype=bool)
    first[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
    start = np.flatnonzero(first)
    permutation, hits_before = np.divmod(start, positives)
    t = np.diff(np.append(start, drawn.size))
    group = drawn.reshape(-1)[start]
    m, n0 = size[group], before[group]
    harmonic = harmonic_numbers(int(size.sum()))
    slope = (t - 1) / np.maximum(m - 1, 1)  # as in `average_precision_resampled`
    precision = slope * m + (hits_before + 1 - slope - slope * n0) * (harmonic[n0 + m] - harmonic[n0])
    total = np.bincount(permutation, t / m * precision, minlength=permutations)
    tied: Floats = np.minimum(total / positives, 1.0)
    return tied


def share_at_least(observed: float, drawn: Floats) -> float:
    """Return (1 + how many drawn values are at least the observed one) / (1 + how many were drawn), in (0, 1].

    The observed order counts among the permutations, so that the value is never 0 (Phipson and Smyth 2010).
    """
    return float((1 + (drawn >= observed - _TOLERANCE).sum()) / (1 + len(drawn)))


def permutation_p_value(
    score: npt.ArrayLike,
    positive: npt.ArrayLike,
    search: npt.ArrayLike,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Value:
    """Return the share of label permutations within searches whose average precision is at least the observed one.

    In (0, 1]. Labels move only within a search: what a score gains by telling one search from another is in the null as
    well. Undefined without a positive.
    """
    s, y = np.asarray(score, dtype=np.float64), np.asarray(positive, dtype=bool)
    observed = average_precision_resampled(Tally.of(s, y))[0]
    if np.isnan(observed):
        return Value(None, reason=NO_POSITIVE)
    landed = landing_rows(s, y, search, permuted_places(search, permutations, seed))
    return Value(share_at_least(float(observed), average_precision_of(s, landed)))


def macro_p_value(observed: Sequence[float], drawn: Sequence[Floats]) -> float:
    """Return the p-value of the mean over tasks; `drawn[t]`, shape (permutations,), are the values of task t.

    A task whose observed value is NaN is left out. NaN when every task is.
    """
    kept = [t for t, value in enumerate(observed) if not np.isnan(value)]
    if not kept:
        return float("nan")
    return share_at_least(float(np.mean([observed[t] for t in kept])), nan_mean(np.stack([drawn[t] for t in kept])))
