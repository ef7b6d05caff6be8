"""The measurement backend: one kernel's source in, one Measurement out, whatever the kernel does."""

from __future__ import annotations

import importlib.util
import shutil
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from harness.measure.result import CaseTimes, Measurement

if TYPE_CHECKING:
    from harness.measure.engine import Engine

__all__ = ["BACKENDS", "Backend", "CaseTimes", "Measurement", "NoDevice", "open_backend"]
BACKENDS = ("cuda", "cpu")


class NoDevice(OSError):
    """The machine lacks what a backend needs."""


class Backend(Protocol):
    """Anything that measures kernels: local GPUs, the interpreter, a replay of recorded results."""

    session: dict[str, Any]

    def submit(self, task: str, code: str, language: str | None = None) -> Future[Measurement]: ...

    def close(self) -> None: ...


def open_backend(name: str = "cuda", workers: int = 8, **limits: float) -> Engine:
    """Start a backend; use it as a context manager.

    `limits` override fields of `harness.measure.engine.Limits`. Raises ValueError for an unknown backend and NoDevice
    where there is no GPU, or no torch.
    """
    if name not in BACKENDS:
        raise ValueError(f"unknown backend '{name}'; known backends: {', '.join(BACKENDS)}")
    missing = [package for package in ("torch", "triton") if importlib.util.find_spec(package) is None]
    if missing:
        raise NoDevice(f"measuring needs {' and '.join(missing)}; install with: pip install 'kernelcast[gpu]'")
    if name == "cuda" and shutil.which("nvidia-smi") is None:
        raise NoDevice("no NVIDIA GPU here (nvidia-smi is not found); use --backend cpu to check without timing")
    from harness.measure.engine import Engine, Limits

    return Engine(name, workers, Limits(**limits))
