"""Two-stage cluster bootstrap: tasks are drawn with replacement, then searches within each drawn task.

Rows of one search share seeds, parents and sessions, and rows of one task share everything else, so neither are
independent draws. A resample is described by how often each search occurs; few distinct descriptions exist when a task
has few searches, and each is evaluated once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmark.metrics.tally import Floats, Ints

LEVEL = 0.95
LEAST_CLUSTERS = 3


@dataclass(frozen=True)
class Resamples:
    """The draws: `tasks[r, j]` is the j-th task of resample r, `members[r, j]` its row in that task's multiplicities.

    `multiplicities[t]`, shape (u_t, searches of t), are the distinct draws of searches of task t.
    """

    tasks: Ints
    members: Ints
    multiplicities: tuple[Ints, ...]


def draw(searches: Sequence[int], resamples: int, seed: int) -> Resamples:
    """Draw resamples for tasks with the given numbers of searches; the same arguments give the same draws.

    Two forecasters scored with the same draws are compared pairwise, resample by resample. Raises ValueError when a
    task has no search.
    """
    if any(n < 1 for n in searches):
        raise ValueError("every task needs at least one search")
    rng = np.random.default_rng(seed)
    n = len(searches)
    tasks = rng.integers(0, n, size=(resamples, n)) if n else np.zeros((resamples, 0), dtype=np.int64)
    members = np.zeros(tasks.shape, dtype=np.int64)
    multiplicities = []
    for task, count in enumerate(searches):
        here = tasks == task
        drawn = rng.multinomial(count, np.full(count, 1 / count), size=int(here.sum()))
        distinct, inverse = np.unique(drawn, axis=0, return_inverse=True)
        members[here] = inverse.reshape(-1)
        multiplicities.append(distinct.astype(np.int64).reshape(-1, count))
    return Resamples(tasks.astype(np.int64), members, tuple(multiplicities))


def mean_over_tasks(values: Sequence[Floats], plan: Resamples) -> Floats:
    """Return the macro mean of each resample, shape (R, ...), from values[t] of shape (u_t, ...).

    A task whose value is NaN in a resample is left out of that resample's mean; NaN where no task has a value.
    """
    from scipy.sparse import csr_array

    sizes = np.array([len(v) for v in values], dtype=np.int64)
    start = np.cumsum(sizes) - sizes
    index = start[plan.tasks] + plan.members
    resamples, tasks = index.shape
    flat = np.concatenate([v.reshape(len(v), int(np.prod(v.shape[1:]))) for v in values])
    present = ~np.isnan(flat)
    rows = np.arange(0, resamples * tasks + 1, max(tasks, 1))[: resamples + 1]
    drawn = csr_array((np.ones(index.size), index.reshape(-1), rows), shape=(resamples, len(flat)))
    total, count = drawn @ np.where(present, flat, 0.0), drawn @ present.astype(np.float64)
    mean: Floats = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return mean.reshape(resamples, *values[0].shape[1:])


def nan_mean(values: Floats, axis: int = 0) -> Floats:
    """Return the mean over an axis of the values that are not NaN; NaN, without a warning, where there is none."""
    present = ~np.isnan(values)
    total, count = np.where(present, values, 0.0).sum(axis=axis), present.sum(axis=axis)
    mean: Floats = np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0)
    return mean


def percentile_interval(replicates: Floats, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the percentile interval of the defined replicates (Efron 1979); None where under half are defined."""
    defined = replicates[~np.isnan(replicates)]
    if not len(defined) or 2 * len(defined) < len(replicates):
        return None
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def interval_of_counts(values: Floats, counts: Ints, level: float = LEVEL) -> Floats:
    """Return `percentile_interval` of each column, shape (2, columns), when row i of the values occurs counts[i] times.

    `values` has shape (u, columns), NaN where undefined; an interval is NaN where `percentile_interval` has none.
    """
    defined = ~np.isnan(values)
    total = (defined * counts[:, None]).sum(axis=0)
    order = np.argsort(values, axis=0)  # NaN last
    ordered = np.take_along_axis(values, order, axis=0)
    upto = np.cumsum(counts[order] * np.take_along_axis(defined, order, axis=0), axis=0)
    ends = []
    for q in ((1 - level) / 2, (1 + level) / 2):
        place = np.maximum(total - 1, 0) * q
        below = np.floor(place)
        at = [np.argmax(upto > k, axis=0)[None, :] for k in (below, np.minimum(below + 1, np.maximum(total - 1, 0)))]
        low, high = (np.take_along_axis(ordered, index, axis=0)[0] for index in at)
        ends.append(low + (high - low) * (place - below))
    interval: Floats = np.where((total > 0) & (2 * total >= counts.sum()), np.stack(ends), np.nan)
    return interval


def paired_p_value(difference: Floats, clusters: int) -> float:
    """Return the two-sided bootstrap p-value that a paired difference is zero, in (0, 1].

    Twice the smaller tail, each tail counted with the observed sample, so it is never below 2 / (R + 1)
    (Davison and Hinkley 1997, section 4.2). Nor is it below 2^(1 - clusters), the least that a sign test of that many
    clusters can give: when all of a few clusters point one way no resample crosses zero, however many are drawn.
    """
    d = difference[~np.isnan(difference)]
    below, above = int((d <= 0).sum()), int((d >= 0).sum())
    return float(min(1.0, max(2 * (1 + min(below, above)) / (1 + len(d)), 2.0 ** (1 - clusters))))


def holm(p_values: Sequence[float], level: float = 1 - LEVEL) -> list[bool]:
    """Return which hypotheses Holm's step-down procedure rejects at a family-wise level (Holm 1979)."""
    rejected = [False] * len(p_values)
    for step, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if p_values[i] > level / (len(p_values) - step):
            break
        rejected[i] = True
    return rejected
