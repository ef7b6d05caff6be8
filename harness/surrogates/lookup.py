"""Two tables that a surrogate has to beat: what the same edit did before, and what the nearest seed's descendants did.

Neither understands a kernel. A board on which they do well is a board whose edits are the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from benchmark.bins import Floats
from benchmark.near_duplicate import Signature, minhash_signature
from benchmark.query import Query
from harness.surrogates.features import constants, role
from harness.surrogates.learned import Estimate, Learned, clipped, failure_rates
from harness.surrogates.training import Labelled

PRIOR_ROWS = 2.0  # what a coarser key's mean counts for beside the rows of a finer one
Table = dict[str, list[float]]  # key -> [rows, sum of log2 S]


class Lookup(Learned):
    """A table of mean log-speedups, asked with keys from coarse to fine; a mean is shrunk towards the coarser one."""

    def __init__(self, seed: int = 0, calibrate: str = "temperature") -> None:
        super().__init__(seed, calibrate)
        self._table: Table = {}
        self._failed: dict[str, float] = {}

    def keys(self, query: Query) -> Sequence[str]:
        """Return the keys under which a query is filed, the coarsest first."""
        raise NotImplementedError

    def learn(self, train: Labelled, validation: Labelled) -> None:
        self._failed = failure_rates(train)
        self._fill((train.queries[i] for i in np.flatnonzero(train.ok)), clipped(train.log2_speedup[train.ok]))

    def _fill(self, queries: Iterable[Query], log2: Floats) -> None:
        for query, value in zip(queries, log2.tolist(), strict=True):
            for key in self.keys(query):
                entry = self._table.setdefault(key, [0.0, 0.0])
                entry[0] += 1
                entry[1] += value

    def estimate(self, queries: Sequence[Query]) -> Estimate:
        log2 = np.array([self._mean(query) for query in queries], dtype=np.float64)
        p_fail = np.array([self._failed.get(query.anchor_kind, self._failed[""]) for query in queries])
        return Estimate(log2, p_fail)

    def _mean(self, query: Query) -> float:
        mean = 0.0
        for key in self.keys(query):
            rows, total = self._table.get(key, (0.0, 0.0))
            mean = (total + PRIOR_ROWS * mean) / (rows + PRIOR_ROWS)
        return mean

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"table": self._table, "failed": self._failed}, {}

    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self._table, self._failed = dict(values["table"]), dict(values["failed"])


class ConstantLookup(Lookup):
    """Looks up what the same change of named constants did in training: exactly, by size, by direction, at all.

    Against a reference, where nothing was edited, the candidate's constants themselves are the key.
    """

    def keys(self, query: Query) -> Sequence[str]:
        kind = query.anchor_kind
        if kind != "parent":
            values = _named(constants(query.candidate_code), lambda name, value: f"{name}={value}")
            roles = _named(constants(query.candidate_code), lambda name, value: f"{role(name)}={_octave(value)}")
            return kind, f"{kind} {roles}", f"{kind} {query.task} {roles}", f"{kind} {query.task} {values}"
        edits = _edits(query.anchor_code, query.candidate_code)
        direction = _named(edits, lambda name, edit: f"{role(name)}{'+' if edit[1] > edit[0] else '-'}")
        size = _named(edits, lambda name, edit: f"{role(name)}{_octave(edit[1]) - _octave(edit[0]):+d}")
        exact = _named(edits, lambda name, edit: f"{name}:{edit[0]}>{edit[1]}")
        finer = (f"{kind} {direction}", f"{kind} {size}", f"{kind} {query.task} {size}", f"{kind} {query.task} {exact}")
        return kind, *finer


def _named(values: Mapping[str, Any], text: Callable[[str, Any], str]) -> str:
    return ",".join(sorted(text(name, value) for name, value in values.items())) or "none"


def _octave(value: int) -> int:
    return round(math.log2(value)) if value > 0 else -1


@lru_cache(maxsize=16384)
def _edits(before: str, after: str) -> Mapping[str, tuple[int, int]]:
    """Return the named constants that two sources share and that differ, each with its old and new value."""
    old, new = constants(before), constants(after)
    return {name: (old[name], new[name]) for name in old.keys() & new.keys() if old[name] != new[name]}


class NearestSeed(Lookup):
    """Gives every kernel the mean of what descends from the training seed that it resembles most in structure.

    Seeds are the training parents that are nobody's child; resemblance is the MinHash estimate of the Jaccard index,
    within the task if training has it.
    """

    def __init__(self, seed: int = 0, calibrate: str = "temperature") -> None:
        super().__init__(seed, calibrate)
        self._seeds: dict[str, list[int]] = {}  # task -> rows of the signatures
        self._signatures: Signature = np.zeros((0, 1), dtype=np.uint64)
        self._nearest = lru_cache(maxsize=16384)(self._find_nearest)

    def learn(self, train: Labelled, validation: Labelled) -> None:
        edges = [query for query in train.queries if query.anchor_kind == "parent"]
        children = {(query.task, query.candidate_code) for query in edges}
        seeds = sorted({(query.task, query.anchor_code) for query in edges} - children)
        self._signatures = np.array([minhash_signature(code) for _, code in seeds], dtype=np.uint64)
        self._seeds = {}
        for row, (task, _) in enumerate(seeds):
            self._seeds.setdefault(task, []).append(row)
        self._nearest.cache_clear()
        super().learn(train, validation)

    def keys(self, query: Query) -> Sequence[str]:
        kind = query.anchor_kind
        return (kind, f"{kind} {query.task}", f"{kind} {self._nearest(query.task, query.candidate_code)}")

    def _find_nearest(self, task: str, code: str) -> int:
        rows = self._seeds.get(task) or sorted(row for rows in self._seeds.values() for row in rows)
        if not rows:
            return -1
        alike = (self._signatures[rows] == minhash_signature(code)).mean(axis=1)
        return rows[int(np.argmax(alike))]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        values, _ = super().state()
        return {**values, "seeds": self._seeds}, {"signatures": self._signatures}

    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        super().restore(values, arrays)
        self._seeds, self._signatures = dict(values["seeds"]), arrays["signatures"]
        self._nearest.cache_clear()
