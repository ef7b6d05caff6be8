"""KernelCast's public API, re-exported: `from kernelcast import load_queries, score`."""

from __future__ import annotations

from typing import Any

import benchmark

__version__ = benchmark.__version__
__all__ = list(benchmark.__all__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'kernelcast' has no attribute '{name}'")
    return getattr(benchmark, name)


def __dir__() -> list[str]:
    return __all__
