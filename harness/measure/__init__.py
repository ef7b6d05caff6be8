"""The measurement backend: one kernel's source in, one Measurement out, whatever the kernel does."""

from __future__ import annotations

import importlib.util
import os
import shutil
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from harness.measure.result import CaseTimes, Measurement

if TYPE_CHECKING:
    from harness.measure.engine import Engine
    from harness.measure.fleet import Fleet

__all__ = ["BACKENDS", "Backend", "CaseTimes", "Measurement", "NoDevice", "open_backend"]
BACKENDS = ("cuda", "cpu")
ISOLATIONS = ("strict", "shared")


class NoDevice(OSError):
    """The machine lacks what a backend needs."""


class Backend(Protocol):
    """Anything that measures kernels: local GPUs, a cluster, the interpreter, a replay of recorded results.

    `isolation` is the level for one kernel; None is that of the backend.
    """

    @property
    def session(self) -> dict[str, Any]: ...

    def submit(
        self, task: str, code: str, language: str | None = None, isolation: str | None = None
    ) -> Future[Measurement]: ...

    def close(self) -> None: ...


def open_backend(
    name: str = "cuda",
    workers: int = 8,
    isolation: str = "strict",
    gpus: str | None = None,
    ray: str | None = None,
    **limits: Any,
) -> Engine | Fleet:
    """Start a backend; use it as a context manager.

    `isolation` is `strict` (a fresh process for every kernel: for code from anywhere) or `shared` (processes that
    measure many kernels: for those of our own mutator). `gpus` are numbers as nvidia-smi gives them, comma-separated,
    or `all`; `ray` is the address of a cluster, whose every GPU is used. `workers` kernels are built at once. `limits`
    override fields of `harness.measure.limits.Limits`. Raises ValueError for an unknown backend, level, limit or GPU,
    and NoDevice where there is no GPU, or no torch.
    """
    from harness.measure.limits import Limits

    if isolation not in ISOLATIONS:
        raise ValueError(f"unknown isolation '{isolation}'; known levels: {', '.join(ISOLATIONS)}")
    if name not in BACKENDS:
        raise ValueError(f"unknown backend '{name}'; known backends: {', '.join(BACKENDS)}")
    missing = [package for package in ("torch", "triton") if importlib.util.find_spec(package) is None]
    if missing:
        raise NoDevice(f"measuring needs {' and '.join(missing)}; install with: pip install 'kernelcast[gpu]'")
    chosen = Limits(**limits)
    if ray is not None:
        if gpus is not None:
            raise ValueError("--gpus names GPUs of this machine and --ray a cluster; give one of them")
        if importlib.util.find_spec("ray") is None:
            raise NoDevice("a cluster needs the package ray; install with: pip install 'kernelcast[ray]'")
        from harness.measure.cluster import ray_fleet

        return ray_fleet(ray, name, workers, chosen, isolation)
    from harness.measure.engine import Engine

    if name == "cpu":
        if gpus is not None:
            raise ValueError("--gpus needs --backend cuda")
        return Engine(name, workers, chosen, isolation)
    from harness.measure.fleet import local_fleet

    numbers = local_gpus(gpus)
    if len(numbers) == 1:
        return Engine(name, workers, chosen, isolation, numbers[0])
    return local_fleet(numbers, workers, chosen, isolation)


def local_gpus(wanted: str | None) -> list[str]:
    """Return the numbers of the GPUs to use: those named, `all`, or the first that this process may see.

    Raises NoDevice: there is none, or one is in use; ValueError: a named one is not there.
    """
    if shutil.which("nvidia-smi") is None:
        raise NoDevice("no NVIDIA GPU here (nvidia-smi is not found); use --backend cpu to check without timing")
    from harness.measure.environment import gpu_numbers, processes_on

    known = gpu_numbers()
    if not known:
        raise NoDevice("nvidia-smi lists no GPU; use --backend cpu to check without timing")
    numbers = known if wanted == "all" else [part.strip() for part in wanted.split(",")] if wanted else known[:1]
    for number in numbers:
        if number not in known:
            raise ValueError(f"--gpus: no GPU '{number}' here; there are {', '.join(known)}")
        # In a container the numbers of processes outside mean nothing; `kernelcast doctor` shows them all.
        if others := [p for p in processes_on(number) if os.path.exists(f"/proc/{p.split()[0]}")]:
            raise NoDevice(f"GPU {number} is in use by process {others[0]}; end it or choose another with --gpus")
    return numbers
