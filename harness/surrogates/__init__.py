"""Surrogates: programs that forecast a kernel's speedup, by name or by `module:Class`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

# name -> (where it is defined, what it does in one line)
BUNDLED: Mapping[str, tuple[str, str]] = {
    "uniform": ("harness.surrogates.baselines:Uniform", "the same probability for every bin"),
    "base-rate": ("harness.surrogates.baselines:BaseRate", "bin frequencies of the train split, per kind of anchor"),
    "no-change": ("harness.surrogates.baselines:NoChange", "every candidate is as fast as its anchor"),
    "random": ("harness.surrogates.baselines:Random", "probabilities drawn at random for each query"),
    "gbdt": ("harness.surrogates.gbdt:GradientBoosting", "gradient-boosted trees on static features of the source"),
    "oracle": ("harness.surrogates.baselines:Oracle", "the measured labels: the best possible row, not ranked"),
}

_EXPORTS = {
    "SurrogateError": "harness.surrogates.foreign",
    "SurrogateSpec": "harness.surrogates.spec",
    "parse": "harness.surrogates.spec",
    "create": "harness.surrogates.spec",
    "forecast_all": "harness.surrogates.run",
    "Labelled": "harness.surrogates.training",
    "prepare": "harness.surrogates.training",
}
__all__ = ["BUNDLED", *sorted(_EXPORTS)]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'harness.surrogates' has no attribute '{name}'")
    return getattr(import_module(_EXPORTS[name]), name)
