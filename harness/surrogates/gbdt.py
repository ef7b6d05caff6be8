"""Gradient-boosted trees on static features: of the source alone, or with what its compiler said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmark.bins import N_BINS, Floats, bin_mass
from benchmark.query import Query
from harness.surrogates.features import Features
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.forest import Forest
from harness.surrogates.learned import Estimate, Learned, clipped
from harness.surrogates.query_features import compiled_features, matrix, query_features, varying_features
from harness.surrogates.training import Labelled

ENOUGH_FAILURES = 10


class GradientBoosting(Learned):
    """A classifier over the bins, a regression of log2 S and a failure classifier, fitted on the train split."""

    def __init__(self, seed: int = 0, calibrate: str = "temperature", iterations: int = 120, leaves: int = 12) -> None:
        super().__init__(seed, calibrate)
        self.iterations, self.leaves = iterations, leaves
        self._names: tuple[str, ...] = ()
        self._classes: tuple[int, ...] = ()
        self._forests: dict[str, Forest] = {}
        self._failed = 0.0

    def features(self, query: Query) -> Features:
        """Return the features of one query."""
        return query_features(query)

    def learn(self, train: Labelled, validation: Labelled) -> None:
        """Raises SurrogateError if the train rows with a speedup fall into fewer than two bins."""
        ok = train.ok
        log2 = clipped(train.log2_speedup[ok])
        bins = bin_mass(log2, 0.0).argmax(axis=1)
        self._classes = tuple(np.unique(bins).tolist())
        if len(self._classes) < 2:
            raise SurrogateError(f"gbdt needs training speedups in at least two bins; found {len(log2)} rows in one")
        rows = [self.features(query) for query in train.queries]
        self._names = varying_features(rows)
        x = matrix(rows, self._names)
        self._failed = float(np.mean(~ok))
        wanted: dict[str, tuple[str, Floats, Any]] = {
            "bins": ("classifier", x[ok], bins), "log2": ("regressor", x[ok], log2),
        }  # fmt: skip
        if min(np.count_nonzero(ok), np.count_nonzero(~ok)) >= ENOUGH_FAILURES:
            wanted["fail"] = ("classifier", x, ~ok)
        with one_thread():
            self._forests = {name: Forest.of(self._trees(kind).fit(a, b)) for name, (kind, a, b) in wanted.items()}

    def estimate(self, queries: Sequence[Query]) -> Estimate:
        x = matrix([self.features(query) for query in queries], self._names)
        classified = np.zeros((len(x), N_BINS))
        classified[:, self._classes] = softmax(self._forests["bins"].scores(x))
        p_fail = softmax(self._forests["fail"].scores(x))[:, 1] if "fail" in self._forests else self._failed
        log2 = self._forests["log2"].scores(x)[:, 0]
        return Estimate(log2, np.broadcast_to(np.asarray(p_fail, dtype=np.float64), log2.shape), classified)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        values = {"names": self._names, "classes": self._classes, "failed": self._failed}
        arrays = {n: array for name, forest in self._forests.items() for n, array in forest.arrays(name).items()}
        return {**values, "forests": sorted(self._forests)}, arrays

    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self._names, self._classes = tuple(values["names"]), tuple(values["classes"])
        self._failed = values["failed"]
        self._forests = {name: Forest.from_arrays(name, arrays) for name in values["forests"]}

    def _trees(self, kind: str) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        model = HistGradientBoostingClassifier if kind == "classifier" else HistGradientBoostingRegressor
        return model(
            max_iter=self.iterations,
            max_leaf_nodes=self.leaves,
            learning_rate=0.06,
            min_samples_leaf=10,
            l2_regularization=1.0,
            max_features=0.3,
            early_stopping=False,
            random_state=self.seed,
        )


class CompiledGradientBoosting(GradientBoosting):
    """The same trees, shown registers, spills and shared memory of both kernels besides their sources."""

    information = "compiled"

    def features(self, query: Query) -> Features:
        return {**query_features(query), **compiled_features(query)}


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep scikit-learn to one thread: trees do not depend on the cores, and busy ones do not stall each other."""
    import sklearn.ensemble  # noqa: F401 - the limit holds only for libraries that are loaded
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def softmax(scores: Floats) -> Floats:
    """Return class probabilities, shape (n, classes), of scores (n, classes) or, for two classes, (n,) or (n, 1).

    A row's result does not depend on the other rows, to the last bit, which scikit-learn's own does.
    """
    flat = scores.reshape(-1) if scores.ndim == 1 or scores.shape[1] == 1 else None
    z = np.ascontiguousarray(scores) if flat is None else np.stack([np.zeros_like(flat), flat], axis=1)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))
