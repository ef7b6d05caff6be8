"""Rows in order of score with their ties, counted under one or many multiplicities per row.

A bootstrap resample of clusters is a multiplicity for each row. The rank metrics are functions of cumulative counts
along a fixed order, so that many resamples cost one pass over a matrix and no new sort.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def once(n: int) -> Ints:
    """Return the multiplicities of the sample itself, shape (1, n): every row once."""
    return np.ones((1, n), dtype=np.int64)


@dataclass(frozen=True)
class TieGroups:
    """The rows sorted by value, cut into groups of equal value.

    `order` sorts the rows, `ends` are the last positions of the groups in that order, `group` is each row's group.
    """

    order: Ints
    ends: Ints
    group: Ints

    @classmethod
    def of(cls, values: npt.ArrayLike, *, descending: bool) -> TieGroups:
        """Group the rows; raises ValueError for NaN, which has no place in an order."""
        v = np.asarray(values, dtype=np.float64)
        if v.ndim != 1:
            raise ValueError(f"values have shape {v.shape}, expected one dimension")
        if np.isnan(v).any():
            raise ValueError(f"row {int(np.isnan(v).argmax())} of the values to order is NaN")
        order = np.argsort(-v if descending else v, kind="stable")
        sorted_values = v[order]
        new = np.concatenate([[True], sorted_values[1:] != sorted_values[:-1]]) if len(v) else np.zeros(0, dtype=bool)
        group = np.empty(len(v), dtype=np.int64)
        group[order] = np.cumsum(new) - 1
        ends = np.append(np.flatnonzero(new)[1:] - 1, len(v) - 1) if len(v) else np.zeros(0, dtype=np.int64)
        return cls(order.astype(np.int64), ends.astype(np.int64), group)

    def counts(self, multiplicity: Ints) -> tuple[Ints, Ints]:
        """Return how many rows are in each group and before it, both (m, groups), from multiplicities (m, n)."""
        upto = np.cumsum(multiplicity[:, self.order], axis=1)[:, self.ends]
        before = np.concatenate([np.zeros((len(upto), 1), dtype=np.int64), upto[:, :-1]], axis=1)
        return upto - before, before
