"""Which kernels to expand next: PUCT over an append-only archive of kernels with a measured or a speculative value.

    score_i = Q_i + c * scale * P_i * sqrt(1 + T) / (1 + n_i)

Values are log2 speedups over the reference. Q_i is the best value among the direct children once node i has been
visited (its own value while no child succeeded), P_i a linear prior over the rank by value, `scale` the range of the
measured values of non-seed nodes, n_i the visits of i and T all expansions. An expansion visits the parent and all of
its ancestors, also when every child failed. After Khan et al., "GPU Forecasters", 2026, and TTT-Discover.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import numpy.typing as npt

MIN_SCALE = 1e-6
Floats = npt.NDArray[np.float64]


class Archive:
    """Nodes in the order of their addition; node 0 is the first. Nodes without a value are kept but never selected."""

    def __init__(self, capacity: int = 1024) -> None:
        self._size = 0
        self._parent = np.full(capacity, -1, dtype=np.int64)
        self._value = np.full(capacity, np.nan)
        self._best_child = np.full(capacity, -np.inf)
        self._visits = np.zeros(capacity, dtype=np.int64)
        self._seed = np.zeros(capacity, dtype=bool)
        self._measured = np.zeros(capacity, dtype=bool)
        self._order = np.empty(0, dtype=np.int64)
        self._sorted = 0
        self.expansions = 0

    def __len__(self) -> int:
        return self._size

    @property
    def visits(self) -> npt.NDArray[np.int64]:
        """Visits per node, shape [len(self)]."""
        return self._visits[: self._size]

    def add(self, parent: int | None, value: float | None, measured: bool = True) -> int:
        """Append a node and return its position; no parent means a seed, no value a kernel that cannot be a parent.

        A value that is not `measured` is speculative. Raises ValueError if the parent is not in the archive.
        """
        if parent is not None and not 0 <= parent < self._size:
            raise ValueError(f"parent {parent} is not in the archive of {self._size} nodes; add it first")
        if self._size == len(self._value):
            self._grow()
        node = self._size
        self._size += 1
        if parent is None:
            self._seed[node] = True
        else:
            self._parent[node] = parent
        if value is not None:
            self._value[node] = value
            self._measured[node] = measured
            if parent is not None:
                self._best_child[parent] = max(self._best_child[parent], value)
        return node

    def revise(self, node: int, value: float | None, measured: bool) -> None:
        """Give a node another value, and its parent the best child that follows from it; visits stay."""
        self._best_first()
        self._order = np.delete(self._order, np.flatnonzero(self._order == node))
        self._value[node] = np.nan if value is None else value
        self._measured[node] = measured and value is not None
        if value is not None:
            key = -self._value[self._order]
            first, last = (int(np.searchsorted(key, -value, side)) for side in ("left", "right"))
            place = first + int(np.searchsorted(self._order[first:last], node))  # equal values stand by age
            self._order = np.insert(self._order, place, node)
        parent = int(self._parent[node])
        if parent >= 0:
            children = self._value[: self._size][self._parent[: self._size] == parent]
            self._best_child[parent] = np.max(children, initial=-np.inf, where=~np.isnan(children))

    def _grow(self) -> None:
        empty = {"_parent": -1, "_value": np.nan, "_best_child": -np.inf, "_visits": 0, "_seed": 0, "_measured": 0}
        for name, fill in empty.items():
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.full_like(old, fill)]))

    def lineage(self, node: int) -> list[int]:
        """Return the node and its ancestors, nearest first."""
        chain = []
        while node >= 0:
            chain.append(node)
            node = int(self._parent[node])
        return chain

    def expand(self, parent: int) -> None:
        """Count one expansion of a node: a visit for it and for each ancestor."""
        self._visits[self.lineage(parent)] += 1
        self.expansions += 1

    def scale(self) -> float:
        """Return max - min of the measured non-seed values, or of all measured ones while those are fewer than two.

        Speculative values are left out: one wild forecast would turn the search into exploration alone.
        """
        value, seed, measured = (a[: self._size] for a in (self._value, self._seed, self._measured))
        pool = value[measured & ~seed]
        if len(pool) < 2:
            pool = value[measured]
        return max(MIN_SCALE, float(np.ptp(pool))) if len(pool) else 1.0

    def prior(self) -> Floats:
        """Return the rank prior, shape [len(self)]: (N - rank) over its sum, 0 without a value; ties by age."""
        order = self._best_first()
        count = len(order)
        prior = np.zeros(self._size)
        prior[order] = np.arange(count, 0, -1) / (count * (count + 1) / 2)
        return prior

    def _best_first(self) -> npt.NDArray[np.int64]:
        """Return the nodes with a value by descending value, sorting only those that were added since the last call."""
        new = np.arange(self._sorted, self._size)
        new = new[~np.isnan(self._value[new])]
        if len(new):
            new = new[np.argsort(-self._value[new], kind="stable")]
            places = np.searchsorted(-self._value[self._order], -self._value[new], side="right")
            self._order = np.insert(self._order, places, new)
        self._sorted = self._size
        return self._order

    def scores(self, c_puct: float = 1.0) -> Floats:
        """Return the PUCT score of every node, shape [len(self)], in log2 speedup; -inf for nodes without a value."""
        n = self._size
        value, best, visits = self._value[:n], self._best_child[:n], self._visits[:n]
        q = np.where((visits > 0) & (best > -np.inf), best, value)
        score = q + c_puct * self.scale() * self.prior() * np.sqrt(1 + self.expansions) / (1 + visits)
        return np.where(np.isnan(value), -np.inf, score)

    def fastest(self) -> Iterator[int]:
        """Yield the measured nodes by descending value; equal ones by age."""
        return (int(node) for node in self._best_first() if self._measured[node])

    def select(self, count: int, c_puct: float = 1.0, exclude: Collection[int] = ()) -> list[int]:
        """Return up to `count` nodes by descending score, none of them an ancestor of another.

        Equal scores go to the larger value, then to the older node.
        """
        score = self.scores(c_puct)
        if exclude:
            score[list(exclude)] = -np.inf
        chosen: list[int] = []
        while len(chosen) < count and self._size:
            best = score.max()
            if best == -np.inf:
                break
            ties = np.flatnonzero(score == best)
            node = int(ties[np.argmax(self._value[ties])])
            chosen.append(node)
            if len(chosen) < count:
                score[self.lineage(node)] = -np.inf
                score[self._descendants(node)] = -np.inf
        return chosen

    def _descendants(self, node: int) -> npt.NDArray[np.bool_]:
        n = self._size
        blocked = np.zeros(n + 1, dtype=bool)
        blocked[node] = True
        # Pointer doubling: after k rounds every node has asked its 2^k nearest ancestors, so depth costs a logarithm.
        up = np.append(np.where(self._parent[:n] < 0, n, self._parent[:n]), n)
        while True:
            blocked |= blocked[up]
            if (up == n).all():
                return blocked[:n]
            up = up[up]
