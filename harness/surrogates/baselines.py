"""The surrogates that know nothing about kernels, and the one that knows every label."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from benchmark.bins import LOG2_EDGES, N_BINS, Floats, bin_mass
from benchmark.query import Forecast, Query
from harness.surrogates.training import Labelled

NO_CHANGE_SD = 0.25
PRIOR_COUNT = 0.5  # Jeffreys' prior: a bin that training never saw keeps a little mass
FAILED_RANK = -100.0


class Uniform:
    """Gives each of the eight bins the probability 1/8."""

    information = "source"
    transductive = False

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        return [Forecast(probabilities=(1 / N_BINS,) * N_BINS) for _ in queries]


class NoChange:
    """Takes log2 S as normal around 0 with a standard deviation of 0.25, so that bins 4 and 5 hold 95%."""

    information = "source"
    transductive = False

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        mass = tuple(bin_mass(0.0, NO_CHANGE_SD)[0].tolist())
        return [Forecast(probabilities=mass, log2_speedup=0.0) for _ in queries]


class Random:
    """Draws the probabilities of each query from a flat Dirichlet distribution, seeded by its id."""

    information = "source"
    transductive = False

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        return [Forecast(probabilities=self._draw(query.query_id)) for query in queries]

    def _draw(self, query_id: str) -> tuple[float, ...]:
        digest = hashlib.sha256(f"{self.seed}\0{query_id}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
        return tuple(rng.dirichlet(np.ones(N_BINS)).tolist())


class BaseRate:
    """Gives every query the bin frequencies and the failure rate of the train split, per kind of anchor."""

    information = "source"
    transductive = False

    def __init__(self) -> None:
        self._rates: dict[str, Forecast] = {}

    def fit(self, train: Labelled, validation: Labelled) -> None:
        kinds = np.array([q.anchor_kind for q in train.queries])
        for kind in sorted(set(kinds.tolist())):
            rows = kinds == kind
            p_fail = (np.count_nonzero(rows & ~train.ok) + PRIOR_COUNT) / (np.count_nonzero(rows) + 2 * PRIOR_COUNT)
            rates = tuple(bin_rates(train.log2_speedup[rows & train.ok]).tolist())
            self._rates[kind] = Forecast(probabilities=rates, p_fail=float(p_fail))

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        for query in queries:
            if query.anchor_kind not in self._rates:
                known = ", ".join(self._rates) or "nothing"
                raise ValueError(f"no base rate for anchor kind '{query.anchor_kind}': the train split has {known}")
        return [self._rates[query.anchor_kind] for query in queries]


def bin_rates(log2_speedup: Floats) -> Floats:
    """Return the share of each bin among log-speedups of shape (n,), with half a count added to each; shape (8,)."""
    counts = np.bincount(np.searchsorted(LOG2_EDGES, log2_speedup, side="left"), minlength=N_BINS) + PRIOR_COUNT
    return np.asarray(counts / counts.sum(), dtype=np.float64)


class Oracle:
    """Answers with the measured label, as a log-normal that matches its interval: the best row there can be."""

    information = "oracle"
    transductive = False

    def __init__(self) -> None:
        self._answers: dict[str, Forecast] = {}

    def reveal(self, rows: Labelled) -> None:
        """Take the labels that the next queries will ask for."""
        ok = rows.ok
        mass = bin_mass(np.where(ok, rows.log2_speedup, 0.0), np.where(ok, rows.log2_sd, 0.0))
        for i, query in enumerate(rows.queries):
            if ok[i]:
                log2 = float(rows.log2_speedup[i])
                answer = Forecast(probabilities=tuple(mass[i].tolist()), log2_speedup=log2, rank_score=log2, p_fail=0.0)
            else:
                answer = Forecast(probabilities=(1 / N_BINS,) * N_BINS, rank_score=FAILED_RANK, p_fail=1.0)
            self._answers[query.query_id] = answer

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        return [self._answers[query.query_id] for query in queries]
