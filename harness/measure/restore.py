"""Putting a process back as it was before a kernel ran in it, and saying what could not be put back.

For lanes that measure many kernels of our own mutator in one process. Settings are set back; patched functions, threads
that go on, device memory that stays and the like are anomalies, after which the process must not be used again.
"""

from __future__ import annotations

import atexit
import builtins
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

LEFT_BEHIND_BYTES = 64 << 20
WATCHED = (
    "torch", "torch.nn.functional", "torch.cuda", "torch.backends.cuda", "torch.linalg", "torch.library", "triton",
    "triton.language", "triton.runtime.jit", "triton.runtime.autotuner", "triton.compiler.compiler", "time", "math",
    "random", "os", "gc", "threading", "inspect", "builtins", "harness.measure.arena", "harness.measure.protocol",
    "harness.measure.region", "harness.measure.runner", "harness.measure.timing",
)  # fmt: skip
WATCHED_CLASSES = (
    "torch.Tensor", "torch.cuda.Event", "torch.cuda.CUDAGraph", "harness.measure.arena.Arena",
    "harness.measure.protocol.Channel", "harness.measure.region.Region", "harness.measure.region.Driver",
    "harness.measure.runner.Runner", "harness.measure.timing.Timing",
)  # fmt: skip


def _settings(torch: Any) -> dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]:
    """Return, by name, how to read and how to set what a kernel may change legitimately."""
    found: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
        "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
        "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
        "deterministic": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
        "matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        "threads": (torch.get_num_threads, torch.set_num_threads),
        "cpu generator": (torch.get_rng_state, torch.set_rng_state),
        "folder": (os.getcwd, os.chdir),
        "recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
        "garbage collection": (gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
        "environment": (lambda: dict(os.environ), _set_environment),
        "path": (lambda: list(sys.path), lambda value: sys.path.__setitem__(slice(None), value)),
    }
    for owner, names in (
        (torch.backends.cuda.matmul, ("allow_tf32", "allow_fp16_reduced_precision_reduction",
                                      "allow_bf16_reduced_precision_reduction")),
        (torch.backends.cudnn, ("enabled", "benchmark", "deterministic", "allow_tf32")),
    ):  # fmt: skip
        for name in names:
            found[name + (" of cudnn" if owner is torch.backends.cudnn else "")] = _attribute(owner, name)
    return found


def _attribute(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def _set_environment(value: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(value)


def _names(module: ModuleType | type) -> dict[str, tuple[int, int]]:
    """Return the identities of a module's or class's functions and classes, and of what they run.

    Its data may change by itself.
    """
    return {
        name: (id(value), id(getattr(value, "__code__", None)))
        for name, value in vars(module).items()
        if callable(value) or isinstance(value, property)
    }


class Baseline:
    """The state of this process when it was taken; `restore` goes back to it."""

    def __init__(self, torch: Any, cuda: bool) -> None:
        self.torch, self.cuda = torch, cuda
        self.settings = _settings(torch)
        self.values = {name: read() for name, (read, _) in self.settings.items()}
        self.members: dict[str, tuple[ModuleType | type, dict[str, tuple[int, int]]]] = {}
        for name in WATCHED:
            module = builtins if name == "builtins" else sys.modules.get(name)
            if module is not None:
                self.members[name] = (module, _names(module))
        for name in WATCHED_CLASSES:
            where, _, plain = name.rpartition(".")
            owner = getattr(sys.modules.get(where), plain, None)
            if isinstance(owner, type):
                self.members[name] = (owner, _names(owner))
        self.threads = set(threading.enumerate())
        self.finders = list(sys.meta_path), list(sys.path_hooks)
        self.signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
        self.callbacks = list(gc.callbacks), _exits()
        if cuda:
            self.device_generator = torch.cuda.get_rng_state()
            self.allocated = torch.cuda.memory_allocated()
            self.stream = torch.cuda.current_stream()

    def restore(self, ours: tuple[str, ...]) -> list[str]:
        """Drop the modules named `ours`, set the settings back, and return the anomalies, each in a few words."""
        for name in ours:
            sys.modules.pop(name, None)
        anomalies = []
        for name, (read, write) in self.settings.items():
            try:
                if not _same(read(), self.values[name]):
                    write(self.values[name])
                    if not _same(read(), self.values[name]):
                        anomalies.append(f"{name} cannot be set back")
            except Exception as error:  # a setting that can no longer be read is what this looks for
                anomalies.append(f"{name}: {type(error).__name__}")
        anomalies += self._changed_members()
        if extra := [t.name for t in threading.enumerate() if t not in self.threads and t.is_alive()]:
            anomalies.append(f"a thread goes on: {extra[0]}")
        if sys.getprofile() or sys.gettrace():
            anomalies.append("a profiler or tracer was left on")
        if (sys.meta_path, sys.path_hooks) != self.finders:
            anomalies.append("import hooks changed")
        if any(signal.getsignal(n) != handler for n, handler in self.signals.items()):
            anomalies.append("signal handlers changed")
        if (list(gc.callbacks), _exits()) != self.callbacks:
            anomalies.append("callbacks were registered")
        gc.collect()
        return anomalies + (self._device() if self.cuda else [])

    def _changed_members(self) -> list[str]:
        anomalies = []
        for name, (module, before) in self.members.items():
            after = _names(module)
            gone = [member for member, value in before.items() if after.get(member) != value]
            if isinstance(module, type):  # a new member hides an inherited one
                gone += after.keys() - before.keys()
            if gone:
                anomalies.append(f"{name}.{gone[0]} was replaced")
        return anomalies

    def _device(self) -> list[str]:
        torch = self.torch
        torch.cuda.synchronize()
        anomalies = []
        if torch.cuda.current_stream() != self.stream:
            anomalies.append("another stream is current")
        if torch.cuda.memory_allocated() > self.allocated + LEFT_BEHIND_BYTES:
            anomalies.append("device memory stays allocated")
        torch.cuda.set_rng_state(self.device_generator)
        torch.cuda.empty_cache()
        return anomalies


def _exits() -> int:
    return int(atexit._ncallbacks())


def _same(a: Any, b: Any) -> bool:
    if hasattr(a, "equal") and hasattr(b, "equal"):
        return bool(a.equal(b))
    return bool(a == b)
