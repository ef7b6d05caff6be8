"""What the surrogates that learn from labels have in common: fit, pool, calibrate, forecast, save and load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmark.bins import LOG2_BOUNDS, Floats, bin_mass
from benchmark.query import Forecast, Query
from harness.surrogates.baselines import bin_rates
from harness.surrogates.calibration import Calibration, apply_by_kind, check_method, fit_by_kind
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.mixture import mix, mixture_weights
from harness.surrogates.training import Labelled

SPREADS = (0.05, 0.1, 0.2, 0.4, 0.8)  # standard deviations in log2 S around a point estimate
LEAST_SURVIVAL = 1e-6  # keeps the rank of a kernel that fails for sure finite


@dataclass(frozen=True)
class Estimate:
    """What a model says of n queries before pooling: log2 S and the chance of failure (n,), and perhaps bins (n, 8)."""

    log2: Floats
    p_fail: Floats
    classified: Floats | None = None


class Learned(ABC):
    """A surrogate whose forecast is a calibrated linear pool around a model's estimate.

    The components are log-normals of several widths around the estimate of log2 S, the model's own bin probabilities
    if it has any, and the base rate of the kind of anchor. `calibrate` is temperature, isotonic or none: pool weights
    and map are fitted on the validation split, per kind of anchor; with none, all components weigh the same and no map
    is applied. In a pool, where measuring a failed kernel finds nothing, `rank_score` counts a failure as a speedup of
    zero: log2 S + log2(1 - p_fail).
    """

    information = "source"
    transductive = False
    fitted = False

    def __init__(self, seed: int = 0, calibrate: str = "temperature") -> None:
        self.seed, self.calibrate = seed, check_method(calibrate)
        self._rates: dict[str, Floats] = {}
        self._weights: dict[str, Floats] = {}
        self._maps: dict[str, Calibration] = {}

    @abstractmethod
    def learn(self, train: Labelled, validation: Labelled) -> None:
        """Fit the model; `validation` may choose among settings, never add rows."""

    @abstractmethod
    def estimate(self, queries: Sequence[Query]) -> Estimate:
        """Return what the fitted model says; a row's result does not depend on the other rows."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return what `learn` found, as JSON values and as arrays."""

    @abstractmethod
    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Take back what `state` returned."""

    def fit(self, train: Labelled, validation: Labelled) -> None:
        """Fit on the train rows, pool and calibrate on the validation rows.

        Raises SurrogateError without a train row that has a speedup.
        """
        if not train.ok.any():
            raise SurrogateError(f"{self._name} needs training rows with a speedup, and there is none")
        self.learn(train, validation)
        self._rates = {"": bin_rates(train.log2_speedup[train.ok])}
        for kind in {query.anchor_kind for query in train.queries}:
            rows = train.ok & np.array([query.anchor_kind == kind for query in train.queries])
            self._rates[kind] = bin_rates(train.log2_speedup[rows])
        self.fitted = True
        self._calibrate(validation)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        if not queries:
            return []
        if not self.fitted:
            raise SurrogateError(f"{self._name} has not been fitted: call fit(train, validation) first")
        estimate = self.estimate(queries)
        kinds = [self._kind(query) for query in queries]
        pooled = mix(self._components(estimate, kinds), np.array([self._weights[kind] for kind in kinds]))
        probabilities = apply_by_kind(self._maps, pooled, kinds)
        survival = np.log2(np.maximum(1 - estimate.p_fail, LEAST_SURVIVAL))
        return [
            Forecast(
                probabilities=tuple(probabilities[i].tolist()),
                log2_speedup=float(estimate.log2[i]),
                rank_score=float(estimate.log2[i] + survival[i]) if query.track == "pool" else None,
                p_fail=float(estimate.p_fail[i]),
            )
            for i, query in enumerate(queries)
        ]

    def fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return all that a fitted surrogate holds, for `harness.surrogates.saved`."""
        values, arrays = self.state()
        pool = {
            "rates": {kind: rates.tolist() for kind, rates in self._rates.items()},
            "weights": {kind: weights.tolist() for kind, weights in self._weights.items()},
            "maps": {kind: one.to_json() for kind, one in self._maps.items()},
        }
        return {"model": values, "pool": pool}, arrays

    def restore_fitted(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Take back what `fitted_state` returned."""
        self.restore(values["model"], arrays)
        pool = values["pool"]
        self._rates = {kind: np.array(rates) for kind, rates in pool["rates"].items()}
        self._weights = {kind: np.array(weights) for kind, weights in pool["weights"].items()}
        self._maps = {kind: Calibration.from_json(one) for kind, one in pool["maps"].items()}
        self.fitted = True

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _kind(self, query: Query) -> str:
        return query.anchor_kind if query.anchor_kind in self._rates else ""

    def _calibrate(self, validation: Labelled) -> None:
        ok = validation.ok
        queries = [query for query, good in zip(validation.queries, ok, strict=True) if good]
        kinds = [self._kind(query) for query in queries]
        estimate = self.estimate(queries[:1] if queries else [])
        n_components = len(SPREADS) + 1 + (estimate.classified is not None)
        self._weights = dict.fromkeys(self._rates, np.full(n_components, 1 / n_components))
        self._maps = {"": Calibration()}
        if not queries or self.calibrate == "none":
            return
        components = self._components(self.estimate(queries), kinds)
        target = bin_mass(validation.log2_speedup[ok], validation.log2_sd[ok])
        for kind in self._rates:
            rows = np.array([k == kind for k in kinds])
            if not rows.any():
                rows[:] = True
            self._weights[kind] = mixture_weights(components[rows], target[rows])
        pooled = mix(components, np.array([self._weights[kind] for kind in kinds]))
        self._maps = fit_by_kind(self.calibrate, pooled, target, kinds)

    def _components(self, estimate: Estimate, kinds: Sequence[str]) -> Floats:
        """Return the forecast of each component, shape (n, components, 8)."""
        own = [] if estimate.classified is None else [estimate.classified]
        rates = np.array([self._rates[kind] for kind in kinds])
        return np.stack([*own, *(bin_mass(estimate.log2, sd) for sd in SPREADS), rates], axis=1)


def clipped(log2: Floats) -> Floats:
    """Return log-speedups within the bounds of the bins: a model gains nothing from fitting the outermost further."""
    return np.clip(log2, LOG2_BOUNDS[0], LOG2_BOUNDS[-1])


def failure_rates(rows: Labelled) -> dict[str, float]:
    """Return the share of failed candidates per kind of anchor, with half a count added to each side; "" is overall."""
    kinds = np.array([query.anchor_kind for query in rows.queries])
    of_kind = {kind: ~rows.ok[kinds == kind] for kind in set(kinds.tolist())}
    return {
        kind: float((np.count_nonzero(failed) + 0.5) / (len(failed) + 1))
        for kind, failed in {"": ~rows.ok, **of_kind}.items()
    }
