"""KernelCast's benchmark: records, bins, splits, data and metrics.

Names resolve on first use, so that importing the package loads neither pyarrow nor pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_EXPORTS = {
    "EDGES": "benchmark.bins",
    "bin_of": "benchmark.bins",
    "Query": "benchmark.query",
    "Forecast": "benchmark.query",
    "Surrogate": "benchmark.query",
    "load_table": "benchmark.data_access",
    "load_kernels": "benchmark.data_access",
    "load_pairs": "benchmark.data_access",
    "load_eval": "benchmark.data_access",
    "load_measurements": "benchmark.data_access",
    "Lookup": "benchmark.lookup",
    "load_queries": "benchmark.data_access",
    "load_labels": "benchmark.data_access",
    "read_forecasts": "benchmark.forecasts",
    "write_forecasts": "benchmark.forecasts",
    "score": "benchmark.scoring",
    "Evaluator": "benchmark.evaluator",
}
__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'benchmark' has no attribute '{name}'")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return __all__
