"""Recalibration: a map from forecast probabilities to better ones, fitted on rows that were not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmark.bins import N_BINS, Floats
from harness.surrogates.foreign import SurrogateError

METHODS = ("temperature", "isotonic", "none")
LEAST_ROWS = 20  # fewer than this of one kind of anchor, and the map of all rows serves
FLOOR = 1e-4  # an isotonic map may say zero, which no finite number of rows can show
PRIOR_ROWS = 5.0  # rows' worth of evidence, at one nat for a factor of e, that the temperature is 1
_TEMPERATURES = (0.2, 5.0)
Knots = tuple[tuple[float, ...], tuple[float, ...]]  # where the map bends, and what it gives there


@dataclass(frozen=True)
class Calibration:
    """A fitted map: p^(1/temperature), or a monotone map of each bin's probability; then normalised."""

    temperature: float = 1.0
    knots: tuple[Knots, ...] = ()

    def apply(self, probabilities: Floats) -> Floats:
        """Return the recalibrated probabilities, shape (n, 8)."""
        if self.knots:
            columns = [np.interp(probabilities[:, b], x, y) for b, (x, y) in enumerate(self.knots)]
            mapped = np.maximum(np.stack(columns, axis=1), FLOOR)
        else:
            mapped = np.exp(_tempered(np.log(np.maximum(probabilities, 1e-12)), self.temperature))
        return np.asarray(mapped / mapped.sum(axis=1, keepdims=True))

    def to_json(self) -> dict[str, Any]:
        return {"temperature": self.temperature, "knots": self.knots}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Calibration:
        knots = tuple((tuple(x), tuple(y)) for x, y in values["knots"])
        return cls(values["temperature"], knots)


def check_method(method: str) -> str:
    """Return the method. Raises SurrogateError for one that does not exist."""
    if method not in METHODS:
        raise SurrogateError(f"unknown calibration '{method}'; expected one of {', '.join(METHODS)}")
    return method


def fit_calibration(method: str, probabilities: Floats, target: Floats) -> Calibration:
    """Return the map of probabilities (n, 8) that fits the label distributions `target` (n, 8) best.

    `temperature` minimises the log loss over one number (Guo et al., 2017, with probabilities in place of logits);
    `isotonic` fits each bin by itself, monotone and with least squares (Zadrozny and Elkan, 2002).
    """
    if method == "none" or not len(probabilities):
        return Calibration()
    if method == "temperature":
        return Calibration(temperature=_best_temperature(probabilities, target))
    from sklearn.isotonic import IsotonicRegression

    knots = []
    for b in range(N_BINS):
        model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(probabilities[:, b], target[:, b])
        knots.append((tuple(model.X_thresholds_.tolist()), tuple(model.y_thresholds_.tolist())))
    return Calibration(knots=tuple(knots))


def fit_by_kind(method: str, probabilities: Floats, target: Floats, kinds: Sequence[str]) -> dict[str, Calibration]:
    """Return a map for each kind of anchor that has rows enough, and under "" the one for all others."""
    found = {"": fit_calibration(method, probabilities, target)}
    for kind in sorted(set(kinds)):
        rows = np.array([k == kind for k in kinds])
        if np.count_nonzero(rows) >= LEAST_ROWS:
            found[kind] = fit_calibration(method, probabilities[rows], target[rows])
    return found


def apply_by_kind(maps: Mapping[str, Calibration], probabilities: Floats, kinds: Sequence[str]) -> Floats:
    """Return the probabilities, each row under the map of its kind of anchor."""
    out = probabilities.copy()
    for kind in set(kinds):
        rows = np.array([k == kind for k in kinds])
        out[rows] = maps.get(kind, maps[""]).apply(probabilities[rows])
    return out


def _tempered(logits: Floats, temperature: float) -> Floats:
    scaled = logits / temperature
    return np.asarray(scaled - scaled.max(axis=1, keepdims=True))


def _best_temperature(probabilities: Floats, target: Floats) -> float:
    from scipy.optimize import minimize_scalar

    logits = np.log(np.maximum(probabilities, 1e-12))

    def log_loss(log_temperature: float) -> float:
        z = _tempered(logits, float(np.exp(log_temperature)))
        loss = -(target * (z - np.log(np.exp(z).sum(axis=1, keepdims=True)))).sum()
        return float(loss + PRIOR_ROWS * log_temperature**2)

    low, high = np.log(_TEMPERATURES)
    return float(np.exp(minimize_scalar(log_loss, bounds=(low, high), method="bounded", options={"xatol": 1e-4}).x))
