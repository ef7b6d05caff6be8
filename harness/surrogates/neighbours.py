"""Nearest neighbours: what happened to the training kernels whose code, and whose edit, reads most alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from benchmark.bins import Floats, bin_mass
from benchmark.query import Query
from harness.surrogates.learned import Estimate, Learned, clipped
from harness.surrogates.tokens import changed_lines, hashed, tokenise
from harness.surrogates.training import Labelled

WIDTH = 1 << 14  # columns that runs of tokens are hashed to, for the kernel and for the edit each
RUNS = (1, 3)  # lengths of the runs
PRIOR_WEIGHT = 0.05  # how much the mean over all neighbours counts, so that far ones decide nothing


class Neighbours(Learned):
    """A weighted mean over the most similar training rows with the same kind of anchor.

    Two rows are as similar as the cosine of their candidates' token runs and that of their edits' say, both weighted by
    rarity (tf-idf); a neighbour weighs its similarity to the fourth power.
    """

    def __init__(self, seed: int = 0, calibrate: str = "temperature", k: int = 24) -> None:
        super().__init__(seed, calibrate)
        self.k = k
        self._idf: Floats = np.zeros(2 * WIDTH)
        self._rows: dict[str, tuple[Any, Floats, Floats, Floats]] = {}  # kind -> sparse rows, log2, sd, failed

    def learn(self, train: Labelled, validation: Labelled) -> None:
        from scipy.sparse import csr_matrix

        counts = self._counts(train.queries)
        present = np.bincount(counts.indices, minlength=2 * WIDTH)
        self._idf = np.log((1 + len(train)) / (1 + present))
        kinds = np.array([query.anchor_kind for query in train.queries])
        rows = csr_matrix(self._normalised(counts))
        failed = (~train.ok).astype(np.float64)
        log2 = np.where(train.ok, clipped(np.nan_to_num(train.log2_speedup)), 0.0)
        sd = np.nan_to_num(train.log2_sd)
        self._rows = {}
        for kind in ["", *sorted(set(kinds.tolist()))]:
            own = np.flatnonzero((kinds == kind) | (kind == ""))
            self._rows[kind] = (rows[own], log2[own], sd[own], failed[own])

    def estimate(self, queries: Sequence[Query]) -> Estimate:
        n = len(queries)
        log2, p_fail, classified = np.zeros(n), np.zeros(n), np.zeros((n, 8))
        kinds = [query.anchor_kind if query.anchor_kind in self._rows else "" for query in queries]
        for kind in sorted(set(kinds)):
            at = [i for i, k in enumerate(kinds) if k == kind]
            rows, *labels = self._rows[kind]
            alike = (self._normalised(self._counts([queries[i] for i in at])) @ rows.T).toarray()
            for i, similarity in zip(at, alike, strict=True):
                log2[i], p_fail[i], classified[i] = self._vote(similarity, *labels)
        return Estimate(log2, p_fail, classified)

    def _vote(self, similarity: Floats, log2: Floats, sd: Floats, failed: Floats) -> tuple[float, float, Floats]:
        # A stable order: ties go to the earlier training row, wherever the query stands.
        near = np.argsort(-similarity, kind="stable")[: self.k]
        weight = similarity[near] ** 4 + PRIOR_WEIGHT / len(near)
        p_fail = float((weight * failed[near]).sum() / weight.sum())
        ok = weight * (1 - failed[near])
        if ok.sum() <= 0:
            return 0.0, p_fail, np.full(8, 1 / 8)
        ok = ok / ok.sum()
        mass = bin_mass(log2[near], np.maximum(sd[near], 0.02))
        return float((ok * log2[near]).sum()), p_fail, np.asarray((ok[:, None] * mass).sum(axis=0))

    def _counts(self, queries: Sequence[Query]) -> Any:
        """Return how often each hashed run occurs, as sparse rows of shape (n, 2 x WIDTH): candidate, then edit."""
        from scipy.sparse import csr_matrix

        columns, values, ends = [], [], [0]
        for query in queries:
            before, after = changed_lines(query.anchor_code, query.candidate_code)
            found = dict(_runs(query.candidate_code))
            for sign, text in ((1.0, after), (-1.0, before)):
                for column, count in _runs(text).items():
                    found[WIDTH + column] = found.get(WIDTH + column, 0.0) + sign * count
            kept = [(column, value) for column, value in sorted(found.items()) if value]
            columns += [column for column, _ in kept]
            values += [value for _, value in kept]
            ends.append(len(columns))
        return csr_matrix((np.array(values, dtype=np.float64), columns, ends), shape=(len(queries), 2 * WIDTH))

    def _normalised(self, counts: Any) -> Any:
        """Return rows whose two halves have length 1 / sqrt 2 each, so that a product is a mean of two cosines."""
        out = counts.copy()
        out.data = np.sign(out.data) * np.log1p(np.abs(out.data)) * self._idf[out.indices]
        row = np.repeat(np.arange(out.shape[0]), np.diff(out.indptr))
        half = 2 * row + (out.indices >= WIDTH)
        length = np.sqrt(np.bincount(half, weights=out.data**2, minlength=2 * out.shape[0]))
        out.data = out.data / np.maximum(length[half] * np.sqrt(2), 1e-12)
        return out

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        arrays: dict[str, np.ndarray] = {"idf": self._idf}
        for kind, (rows, *labels) in self._rows.items():
            parts = dict(zip(("log2", "sd", "failed"), labels, strict=True))
            parts |= {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
            arrays |= {f"{kind}/{name}": array for name, array in parts.items()}
        return {"kinds": list(self._rows)}, arrays

    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        from scipy.sparse import csr_matrix

        self._idf = arrays["idf"]
        for kind in values["kinds"]:
            own = {name: arrays[f"{kind}/{name}"] for name in ("data", "indices", "indptr", "log2", "sd", "failed")}
            shape = (len(own["log2"]), 2 * WIDTH)
            rows = csr_matrix((own["data"], own["indices"], own["indptr"]), shape=shape)
            self._rows[kind] = (rows, own["log2"], own["sd"], own["failed"])


@lru_cache(maxsize=16384)
def _runs(code: str) -> Mapping[int, float]:
    tokens = tokenise(code)
    counts: Counter[int] = Counter()
    for length in RUNS:
        counts.update(hashed("\0".join(tokens[i : i + length]), WIDTH + 1) - 1 for i in range(len(tokens) - length + 1))
    return {column: float(count) for column, count in counts.items()}
