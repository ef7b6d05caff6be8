"""What is trained on: measured rows of a split as features, label distributions, and weights that balance the tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields

import numpy as np

from benchmark.bins import Floats
from benchmark.query import Query
from harness.surrogates.neural_model import Features, featurise, targets
from harness.surrogates.training import Labelled, learning_rows

CHUNK = 64
# Gives, for a label and a total, a function that counts what is done.
Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True)
class Rows:
    """Rows that have a speedup: label distribution `mass` (n, 8), log2 S (n,), and weights (n,) of mean 1.

    All rows of a task together weigh as much as those of any other.
    """

    queries: Sequence[Query]
    features: Features
    mass: Floats
    log2: Floats
    weight: Floats

    def __len__(self) -> int:
        return len(self.queries)


class _Reader:
    information = "source"  # what a policy sees of a query


def unseen(label: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show no progress."""
    return nullcontext(lambda n: None)


def measured(found: Labelled, name: str, show: Progress = unseen) -> Rows:
    """Return the rows that carry a speedup; a failure is no bin, and a forecast of bins cannot be judged by it.

    Raises ValueError, with the split's `name`, if there is none.
    """
    index = np.flatnonzero(found.ok)
    if not len(index):
        raise ValueError(f"{name} is empty: no row has a measured speedup, and there is nothing to train or choose by")
    queries = [found.queries[i] for i in index]
    tasks, task, count = np.unique([query.task for query in queries], return_inverse=True, return_counts=True)
    weight = len(index) / (len(tasks) * count[task])
    kept = Labelled(queries, [found.status[i] for i in index], found.log2_speedup[index], found.log2_sd[index])
    return Rows(queries, _features(queries, show), targets(kept).mass, kept.log2_speedup, weight)


def _features(queries: Sequence[Query], show: Progress) -> Features:
    parts = []
    with show("reading kernels", len(queries)) as advance:
        for start in range(0, len(queries), CHUNK):
            parts.append(featurise(queries[start : start + CHUNK]))
            advance(len(parts[-1]))
    return Features(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Features)))


def load_rows(split: str, dataset: str, limit: int | None = None, show: Progress = unseen) -> Rows:
    """Return the rows of a split over all tracks, or the first `limit` of them. Raises ValueError for an empty one."""
    found = learning_rows(_Reader(), split, dataset)  # type: ignore[arg-type]
    if limit is not None:
        part = slice(limit)
        found = Labelled(found.queries[part], found.status[part], found.log2_speedup[part], found.log2_sd[part])
    return measured(found, f"split '{split}' of dataset '{dataset}'", show)


def batch_rows(n: int, size: int, seed: int, step: int) -> np.ndarray:
    """Return the rows of one step: all n are gone through, in a new random order each time, before any comes again.

    The order depends on the seed and the step alone, so that a run which is continued sees what it would have seen.
    """
    size = min(size, n)
    per_epoch = -(-n // size)
    epoch, position = divmod(step, per_epoch)
    order = np.random.default_rng([seed, epoch]).permutation(n)
    return order[position * size : (position + 1) * size]
