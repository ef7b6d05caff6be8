"""What this machine can do for measuring, and what to do about what is missing."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.measure.environment import gpu_numbers, gpu_state, processes_on
from harness.measure.sandbox import CLONE_NEWNET
from harness.measure.users import why_not

FREE_BYTES = 2 << 30
STATES = ("ok", "warning", "missing")


@dataclass(frozen=True)
class Finding:
    """One thing that measuring needs: `state` is ok, warning or missing; `advice` says what to do unless it is ok."""

    name: str
    state: str
    detail: str
    advice: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def examine() -> list[Finding]:
    """Return all findings; a missing GPU does not hide what else is missing."""
    return [finding for check in _CHECKS for finding in check()]


def _python() -> Iterator[Finding]:
    good = sys.version_info >= (3, 11)
    yield Finding("python", "ok" if good else "missing", platform.python_version(), "" if good else "use Python 3.11+")


def _packages() -> Iterator[Finding]:
    for name in ("torch", "triton", "numpy"):
        if importlib.util.find_spec(name) is None:
            yield Finding(name, "missing", "not installed", "pip install 'kernelcast[gpu]'")
        else:
            yield Finding(name, "ok", importlib.metadata.version(name))


def _gpu() -> Iterator[Finding]:
    command = shutil.which("nvidia-smi")
    if command is None:
        yield Finding("gpu", "missing", "nvidia-smi is not found", "install the NVIDIA driver, or use --backend cpu")
        return
    listed = subprocess.run([command, "-L"], capture_output=True, text=True, timeout=30, check=False)
    names = [line.split(" (UUID")[0] for line in listed.stdout.splitlines() if line.startswith("GPU")]
    if not names:
        yield Finding("gpu", "missing", listed.stdout.strip() or "none found", "see whether the driver is loaded")
        return
    state = gpu_state()
    yield Finding("gpu", "ok", "; ".join(names))
    yield Finding("driver", "ok", str(state.get("driver", "unknown")))
    detail = f"SM {state.get('sm_clock_mhz')} MHz, memory {state.get('memory_clock_mhz')} MHz"
    yield Finding("clocks", "ok", f"{detail}, {state.get('temperature_c')} C")
    yield _others()


def _others() -> Finding:
    busy = [process for number in gpu_numbers() for process in processes_on(number)]
    if busy:
        return Finding("other processes", "warning", "; ".join(busy), "end them: they disturb every time")
    return Finding("other processes", "ok", "none on the GPU")


def _compilers() -> Iterator[Finding]:
    for name in ("nvrtc", "cupti"):
        package = next(
            (p for p in (f"nvidia-cuda-{name}", f"nvidia-cuda-{name}-cu12") if _installed(p)), None
        )  # fmt: skip
        if package is not None:
            yield Finding(name, "ok", f"{package} {importlib.metadata.version(package)}")
        else:
            use = {"nvrtc": "CUDA C++ kernels do not build", "cupti": "times come from events and graphs"}[name]
            yield Finding(
                name, "warning", f"no package nvidia-cuda-{name}", f"without it {use}; a CUDA torch brings it"
            )


def _installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _sandbox() -> Iterator[Finding]:
    # In a child, because a process that has left its network cannot come back.
    pid = os.fork()
    if pid == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0 else 1)
    cut_off = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    advice = "" if cut_off else "run as root, or allow unprivileged user namespaces"
    detail = "children lose it" if cut_off else "children keep it: unshare is not permitted"
    yield Finding("sandbox: network", "ok" if cut_off else "warning", detail, advice)
    if reason := why_not("cuda", Path(tempfile.gettempdir())):
        advice = "measure code from strangers on a machine that holds nothing of value"
        yield Finding("sandbox: user", "warning", f"children run as the user of the harness: {reason}", advice)
    else:
        yield Finding("sandbox: user", "ok", "every child has a user of its own")


def _disk() -> Iterator[Finding]:
    for folder in (tempfile.gettempdir(), "/dev/shm"):
        if not os.access(folder, os.W_OK):
            yield Finding(f"disk: {folder}", "missing", "not writable", "set TMPDIR to a folder that is")
            continue
        free = shutil.disk_usage(folder).free
        low = free < FREE_BYTES
        advice = f"free some: builds need about {FREE_BYTES >> 30} GiB" if low else ""
        yield Finding(f"disk: {folder}", "warning" if low else "ok", f"{free / 2**30:.1f} GiB free", advice)


_CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (_python, _packages, _gpu, _compilers, _sandbox, _disk)
