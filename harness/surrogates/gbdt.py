"""Gradient-boosted trees on static features of the source: the learned baseline that needs no language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmark.bins import LOG2_BOUNDS, N_BINS, Floats, bin_mass
from benchmark.query import Forecast, Query
from harness.surrogates.baselines import bin_rates
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.mixture import mix, mixture_weights
from harness.surrogates.query_features import matrix, query_features, varying_features
from harness.surrogates.training import Labelled

SPREADS = (0.1, 0.2, 0.4, 0.8)  # standard deviations in log2 S around the regression
ENOUGH_FAILURES = 10


class GradientBoosting:
    """A classifier over the bins, a regression of log2 S and a failure classifier, fitted on the train split.

    The bin probabilities are a linear pool of the classifier, log-normals of several widths around the regression and
    the base rate; its weights maximise the likelihood of the validation split, per kind of anchor. `log2_speedup` is
    the regression. In a pool, where measuring a failed kernel finds nothing, `rank_score` counts a failure as a speedup
    of zero: log2 S + log2(1 - p_fail).
    """

    information = "source"
    transductive = False

    def __init__(self, seed: int = 0, iterations: int = 120, leaves: int = 12) -> None:
        self.seed, self.iterations, self.leaves = seed, iterations, leaves
        self._names: tuple[str, ...] = ()
        self._models: dict[str, Any] = {}
        self._rates: dict[str, Floats] = {}
        self._weights: dict[str, Floats] = {}
        self._failed = 0.0

    def fit(self, train: Labelled, validation: Labelled) -> None:
        """Fit on the train rows and weigh the components on the validation rows.

        Raises SurrogateError if the train rows with a speedup fall into fewer than two bins.
        """
        ok = train.ok
        log2 = np.clip(train.log2_speedup[ok], LOG2_BOUNDS[0], LOG2_BOUNDS[-1])
        bins = bin_mass(log2, 0.0).argmax(axis=1)
        if len(np.unique(bins)) < 2:
            raise SurrogateError(f"gbdt needs training speedups in at least two bins; found {len(log2)} rows in one")
        rows = [query_features(query) for query in train.queries]
        self._names = varying_features(rows)
        x = matrix(rows, self._names)
        self._failed = float(np.mean(~ok))
        with one_thread():
            self._models = {"bins": self._trees("classifier").fit(x[ok], bins)}
            self._models["log2"] = self._trees("regressor").fit(x[ok], log2)
            if min(np.count_nonzero(ok), np.count_nonzero(~ok)) >= ENOUGH_FAILURES:
                self._models["fail"] = self._trees("classifier").fit(x, ~ok)
            self._fit_pool(train, validation)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        if not queries:
            return []
        if not self._models:
            raise SurrogateError("gbdt has not been fitted: call fit(train, validation) first")
        x = self._matrix(queries)
        with one_thread():
            log2 = self._models["log2"].predict(x)
            p_fail = self._p_fail(x)
            components = self._components(queries, x, log2)
        weights = np.array([self._weights[self._kind(query)] for query in queries])
        probabilities = mix(components, weights)
        return [
            Forecast(
                probabilities=tuple(probabilities[i].tolist()),
                log2_speedup=float(log2[i]),
                rank_score=float(log2[i] + np.log2(max(1 - p_fail[i], 1e-6))) if query.track == "pool" else None,
                p_fail=float(p_fail[i]),
            )
            for i, query in enumerate(queries)
        ]

    def _p_fail(self, x: Floats) -> Floats:
        if "fail" not in self._models:
            return np.full(len(x), self._failed)
        return softmax(self._models["fail"].decision_function(x))[:, 1]

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

    def _fit_pool(self, train: Labelled, validation: Labelled) -> None:
        self._rates = {"": bin_rates(train.log2_speedup[train.ok])}
        for kind in {query.anchor_kind for query in train.queries}:
            rows = train.ok & np.array([query.anchor_kind == kind for query in train.queries])
            self._rates[kind] = bin_rates(train.log2_speedup[rows])
        ok = validation.ok
        queries = [query for query, good in zip(validation.queries, ok, strict=True) if good]
        n_components = len(SPREADS) + 2
        self._weights = dict.fromkeys(self._rates, np.full(n_components, 1 / n_components))
        if not queries:
            return
        x = self._matrix(queries)
        components = self._components(queries, x, self._models["log2"].predict(x))
        target = bin_mass(validation.log2_speedup[ok], validation.log2_sd[ok])
        kinds = np.array([self._kind(query) for query in queries])
        for kind in self._rates:
            rows = kinds == kind if np.any(kinds == kind) else np.full(len(queries), True)
            self._weights[kind] = mixture_weights(components[rows], target[rows])

    def _components(self, queries: Sequence[Query], x: Floats, log2: Floats) -> Floats:
        """Return the forecast of each component, shape (n, components, 8)."""
        classified = np.zeros((len(queries), N_BINS))
        classified[:, self._models["bins"].classes_] = softmax(self._models["bins"].decision_function(x))
        rates = np.array([self._rates[self._kind(query)] for query in queries])
        return np.stack([classified, *(bin_mass(log2, sd) for sd in SPREADS), rates], axis=1)

    def _matrix(self, queries: Sequence[Query]) -> Floats:
        return matrix([query_features(query) for query in queries], self._names)

    def _kind(self, query: Query) -> str:
        return query.anchor_kind if query.anchor_kind in self._rates else ""


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep scikit-learn to one thread: trees do not depend on the cores, and busy ones do not stall each other."""
    import sklearn.ensemble  # noqa: F401 - the limit holds only for libraries that are loaded
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        yield


def softmax(scores: Floats) -> Floats:
    """Return class probabilities, shape (n, classes), of scores (n, classes) or, for two classes, (n,).

    A row's result does not depend on the other rows, to the last bit, which scikit-learn's own does.
    """
    z = np.stack([np.zeros_like(scores), scores], axis=1) if scores.ndim == 1 else np.ascontiguousarray(scores)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))
