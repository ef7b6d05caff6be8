"""Rows in order of score with their ties, counted in the sample and in resamples of whole clusters.

A resample says how often each cluster (a search) occurs. The rank metrics are functions of counts along a fixed order,
and counts are sums over clusters, so that many resamples cost one product of matrices and no new sort.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_BLOCK = 1 << 18  # numbers in one working array: a few of them fit into the cache


@dataclass(frozen=True)
class Draws:
    """Resamples: `cluster`, shape (n,), is each row's cluster, `weight`, (m, clusters), how often one occurs."""

    cluster: Ints
    weight: Floats

    @classmethod
    def sample(cls, n: int) -> Draws:
        """Return the sample itself, m = 1: every row once."""
        return cls(np.zeros(n, dtype=np.int64), np.ones((1, 1)))

    @classmethod
    def of_rows(cls, multiplicity: npt.ArrayLike) -> Draws:
        """Return resamples, shape (m, n), that draw each row by itself."""
        weight = np.asarray(multiplicity, dtype=np.float64)
        return cls(np.arange(weight.shape[1], dtype=np.int64), weight)

    @property
    def clusters(self) -> int:
        """The number of clusters."""
        return int(self.weight.shape[1])

    def __len__(self) -> int:
        return len(self.weight)

    def select(self, rows: npt.NDArray[np.bool_] | Ints) -> Draws:
        """Return the draws of some of the rows."""
        return Draws(self.cluster[rows], self.weight)

    def blocks(self, width: int) -> Iterator[Draws]:
        """Yield the resamples in parts of which an array (m, width) is small."""
        step = max(1, _BLOCK // max(width, 1))
        for start in range(0, len(self.weight), step):
            yield Draws(self.cluster, self.weight[start : start + step])

    def total(self, values: Floats) -> Floats:
        """Return the sum over the rows of each resample, (m, ...), of values of shape (n, ...)."""
        member = (self.cluster[None, :] == np.arange(self.clusters)[:, None]).astype(np.float64)
        sums = member @ values.reshape(len(values), int(np.prod(values.shape[1:])))
        total: Floats = (self.weight @ sums).reshape(len(self.weight), *values.shape[1:])
        return total

    def mean(self, values: Floats, row_weight: Floats | None = None) -> Floats:
        """Return the mean over the rows of each resample, (m, ...), weighted if asked; NaN where it has no row."""
        weight = np.ones(len(values)) if row_weight is None else row_weight
        weighted = values * weight.reshape(-1, *[1] * (values.ndim - 1))
        count = self.total(weight).reshape(-1, *[1] * (values.ndim - 1))
        sums = self.total(weighted)
        mean: Floats = np.divide(sums, count, out=np.full(sums.shape, np.nan), where=count > 0)
        return mean


def in_blocks(draws: Draws, width: int, function: Callable[[Draws], Floats]) -> Floats:
    """Return the values of all resamples, evaluated in parts whose working arrays, (m, width), stay in the cache."""
    return np.concatenate([function(part) for part in draws.blocks(width)], axis=0)


@dataclass(frozen=True)
class TieGroups:
    """The rows cut into groups of equal value, in order: `group`, shape (n,), is each row's, `count` how many exist."""

    group: Ints
    count: int

    @classmethod
    def of(cls, values: npt.ArrayLike, *, descending: bool) -> TieGroups:
        """Group the rows; raises ValueError for NaN, which has no place in an order."""
        v = np.asarray(values, dtype=np.float64)
        if v.ndim != 1:
            raise ValueError(f"values have shape {v.shape}, expected one dimension")
        if np.isnan(v).any():
            raise ValueError(f"row {int(np.isnan(v).argmax())} of the values to order is NaN")
        distinct, group = np.unique(-v if descending else v, return_inverse=True)
        return cls(group.reshape(-1).astype(np.int64), len(distinct))

    def by_cluster(self, draws: Draws, values: npt.ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Return the sums in each group and before it, both (clusters, groups), of values, or of ones."""
        weights = None if values is None else np.asarray(values, dtype=np.float64)
        key = draws.cluster * self.count + self.group
        inside = np.bincount(key, weights, minlength=draws.clusters * self.count).astype(np.float64)
        inside = inside.reshape(draws.clusters, self.count)
        before = np.zeros_like(inside)
        np.cumsum(inside[:, :-1], axis=1, out=before[:, 1:])
        return inside, before


def harmonic_numbers(n: int) -> Floats:
    """Return H[0..n], the partial sums of 1/i."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, n + 1))])
