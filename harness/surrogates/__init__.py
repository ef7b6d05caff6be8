"""Surrogates: programs that forecast a kernel's speedup, by name or by `module:Class`.

One needs a method `forecast(queries) -> forecasts`. It may also have `fit(train, validation)`, which gets labelled rows
of those two splits; `save(folder)` and a class method `load(folder)`; and attributes that say how to ask it:
`information` (source, compiled or measured: what it sees), `transductive` (it looks at all queries at once), `batch`
(queries for one call), `concurrency` (calls that it takes at the same time, from threads), `order_key(query)` (queries
of one key are given one after another) and `fingerprint` (a text that changes when its answers would, for what neither
options nor code show, such as a weights file). What stands in `details` (JSON values) goes into the forecast file.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """Where a surrogate is defined, what its row on the board is for, and what it does in one line."""

    path: str
    kind: str
    description: str


BUNDLED: Mapping[str, Entry] = {
    "uniform": Entry("harness.surrogates.baselines:Uniform", "chance", "the same probability for every bin"),
    "random": Entry("harness.surrogates.baselines:Random", "chance", "probabilities drawn at random for each query"),
    "base-rate": Entry(
        "harness.surrogates.baselines:BaseRate", "baseline", "bin frequencies of the train split, per kind of anchor"
    ),
    "no-change": Entry("harness.surrogates.baselines:NoChange", "baseline", "every candidate is as fast as its anchor"),
    "length": Entry("harness.surrogates.linear:Length", "baseline", "how long the candidate is, and its anchor"),
    "lookup": Entry(
        "harness.surrogates.lookup:ConstantLookup", "baseline", "what the same edit of named constants did in training"
    ),
    "nearest-seed": Entry(
        "harness.surrogates.lookup:NearestSeed", "baseline", "the mean over what descends from the most similar seed"
    ),
    "roofline": Entry(
        "harness.surrogates.linear:Roofline", "baseline", "a roofline with passes over memory and launches, regressed"
    ),
    "neighbours": Entry(
        "harness.surrogates.neighbours:Neighbours", "surrogate", "the training kernels and edits that read most alike"
    ),
    "gbdt": Entry(
        "harness.surrogates.gbdt:GradientBoosting", "surrogate", "gradient-boosted trees on features of the source"
    ),
    "compiled": Entry(
        "harness.surrogates.gbdt:CompiledGradientBoosting",
        "surrogate",
        "gbdt with registers, spills and shared memory of both kernels",
    ),
    "neural": Entry(
        "harness.surrogates.neural:NeuralPair", "surrogate", "a small neural network on the tokens of both kernels"
    ),
    "probe": Entry(
        "harness.surrogates.probes:Probe", "probe", "a regression on what must not tell; a leak if it beats chance"
    ),
    "oracle": Entry(
        "harness.surrogates.baselines:Oracle", "oracle", "the measured labels: the best possible row, not ranked"
    ),
    "noise-ceiling": Entry(
        "harness.surrogates.noise_ceiling:NoiseCeiling", "ceiling", "a second measurement of the same kernels"
    ),
}
# What stands before the `=` of an expression such as trained=DIR; the class takes what stands after it as its first
# argument, `source`, and the options after that.
SOURCES: Mapping[str, Entry] = {
    "trained": Entry("harness.surrogates.saved:load", "surrogate", "a surrogate that was fitted and saved in a folder"),
    "openai": Entry(
        "harness.surrogates.lm.remote:RemoteModel", "surrogate", "a language model behind an OpenAI-compatible endpoint"
    ),
    "hf": Entry(
        "harness.surrogates.lm.local:HuggingFace", "surrogate", "a language model in a folder of Hugging Face weights"
    ),
    "gguf": Entry(
        "harness.surrogates.lm.local:Gguf", "surrogate", "a language model in a GGUF file; gguf=smollm2 is an example"
    ),
}
# What may stand around other surrogates: WRAPPER(SURROGATE, ...). The class takes the surrogates as its first argument.
_WRAPPERS = "harness.surrogates.wrappers"
WRAPPERS: Mapping[str, Entry] = {
    "recalibrated": Entry(f"{_WRAPPERS}:Recalibrated", "surrogate", "recalibrated on the validation split"),
    "ensemble": Entry(f"{_WRAPPERS}:Ensemble", "surrogate", "a linear pool"),
    "repeated": Entry(f"{_WRAPPERS}:Repeated", "surrogate", "the mean over repeated answers"),
    "swapped": Entry(f"{_WRAPPERS}:Swapped", "surrogate", "forecast both ways round and reconciled"),
}

_EXPORTS = {
    "SurrogateError": "harness.surrogates.foreign",
    "Unavailable": "harness.surrogates.foreign",
    "Told": "harness.surrogates.answer_log",
    "SurrogateSpec": "harness.surrogates.spec",
    "parse": "harness.surrogates.spec",
    "create": "harness.surrogates.spec",
    "forecast_all": "harness.surrogates.run",
    "Labelled": "harness.surrogates.training",
    "prepare": "harness.surrogates.training",
}
__all__ = ["BUNDLED", "SOURCES", "WRAPPERS", "Entry", *sorted(_EXPORTS)]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'harness.surrogates' has no attribute '{name}'")
    return getattr(import_module(_EXPORTS[name]), name)
