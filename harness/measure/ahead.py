"""Build a foreign kernel ahead of its run, in a process without a GPU: fill its caches with all that it will load.

The kernel is called for every case on tensors that are not there, under a torch and a Triton that believe in a device
(see `pretend`), so that the keys of what is compiled are those of the real launches. What this run cannot follow, such
as a value read back from the device, is left for the run child to compile. Nothing reported here is trusted.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.measure import launchers, libdevice, nvrtc, pretend
from harness.measure.replaced import replaced

Call = Sequence[tuple[tuple[int, ...], str]]
TEXT_CHARACTERS = 300
COMPILER_ERRORS = frozenset((
    "CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct", "PTXASError", "OutOfResources",
))  # fmt: skip
DATA_ERRORS = frozenset(("DataDependentOutputException", "DynamicOutputShapeException"))


@cache
def preload() -> None:
    """Import what a build needs, before the fork of the process that does it; touches no device and starts no thread.

    Modules that torch imports at the first fake operation are drawn in by a few fake operations on the CPU. From here
    on, in this process and in all that it forks, Triton's caches can be moved and its compiler links a short libdevice.
    """
    import torch
    import torch.cuda._utils
    from torch._subclasses import fake_tensor
    from triton import knobs

    for module in ("triton.testing", "triton.tools.tensor_descriptor", "triton.runtime.autotuner"):
        import_module(module)
    nvrtc.preload()
    libdevice.shorten()
    launchers.lend()
    knobs.cache.manager_class = movable_cache()
    with (
        replaced(torch.cuda, is_available=lambda: False),
        replaced(fake_tensor.FakeTensorMode, avoid_device_init=False),
        pretend.fake_mode(),
    ):
        x = torch.empty(8, 8, dtype=torch.bfloat16)
        y = torch.empty_like(x, dtype=torch.float32)
        for result in (x @ x, y.sum(-1, keepdim=True) * y, torch.softmax(x[1:], -1).to(torch.float16), x.view(4, 16)):
            result.contiguous()
        torch.nn.functional.conv2d(y.view(1, 1, 8, 8), torch.empty(1, 1, 3, 3))


def build(load: Callable[[], Callable[..., Any]], calls: Sequence[Call], device: Mapping[str, Any]) -> dict[str, Any]:
    """Call the kernel that `load` returns for every call, on inputs of the given (shape, dtype name), and compile.

    Inputs are contiguous and aligned to 512 bytes. Files go to TRITON_CACHE_DIR and, for CUDA C++, to `nvrtc` beside
    it, see `nvrtc_folder`. `device` is what `pretend.describe_device` returned. Returns `compiled` (kernels compiled),
    `loaded` (found in the cache), `calls` (how many ran to their end), `distinct` (how many there were), `seconds`,
    `stage_seconds` (of the compiler), `problems`: rows of `call` (index, or -1 for loading), `kind` (compile, data or
    stopped) and `error` (one line), and `signatures`, for `launchers.compile_stub`. Never raises for what the kernel
    does.
    """
    import torch

    started = time.monotonic()
    problems: list[dict[str, Any]] = []
    done = 0
    distinct = {tuple((tuple(shape), dtype) for shape, dtype in call): index for index, call in enumerate(calls)}
    with (
        _counted() as triton,
        pretend.cuda_device(device) as driver,
        nvrtc.compiled_cache(nvrtc_folder()) as from_source,
    ):
        kernel: Callable[..., Any] | None = None
        try:
            kernel = load()
        except BaseException as error:
            problems.append(_problem(-1, error))
        for call, index in distinct.items() if kernel is not None else ():
            try:
                kernel(tuple(torch.empty(shape, dtype=getattr(torch, dtype), device="cuda") for shape, dtype in call))
                done += 1
            except BaseException as error:  # whatever it is, the other calls may do
                problems.append(_problem(index, error))
    return {
        "compiled": triton["compiled"] + len(from_source), "loaded": triton["loaded"], "calls": done,
        "distinct": len(distinct), "seconds": round(time.monotonic() - started, 6),
        "stage_seconds": {name: round(seconds, 6) for name, seconds in triton["stages"].items()}, "problems": problems,
        "signatures": driver.signatures,
    }  # fmt: skip


@cache
def movable_cache() -> type:
    """Return Triton's cache of files, except that it finds the files of an entry where the entry is now.

    Triton writes down where they were made, and compiles again, without a word, once the folder has another name. An
    entry of which a file is missing or unreadable is compiled again, too.
    """
    from triton.runtime.cache import FileCacheManager

    class MovableCache(FileCacheManager):
        def get_group(self, filename: str) -> dict[str, str] | None:
            listing = Path(self._make_path(f"__grp__{filename}"))
            try:
                names = json.loads(listing.read_text())["child_paths"]
                found = {name: self._make_path(os.path.basename(name)) for name in names}
                json.loads(Path(found[filename]).read_text())
            except (OSError, ValueError, KeyError, TypeError):
                return None
            return found if all(map(os.path.isfile, found.values())) else None

    return MovableCache


def nvrtc_folder() -> Path:
    """Return where CUDA C++ kernels are kept: `nvrtc` beside Triton's cache; give it to `nvrtc.use_compiled_cache`."""
    return Path(os.environ["TRITON_CACHE_DIR"]).with_name("nvrtc")


def kind_of(error: BaseException) -> str:
    """Return `compile` for what a compiler says of the kernel, `data` for a value the run needs, else `stopped`."""
    name, text = type(error).__name__, str(error)
    if name in COMPILER_ERRORS or "NVRTC" in text or "Kernel compilation failed" in text:
        return "compile"
    return "data" if name in DATA_ERRORS else "stopped"


def _problem(call: int, error: BaseException) -> dict[str, Any]:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return {"call": call, "kind": kind_of(error), "error": text[:TEXT_CHARACTERS]}


@contextmanager
def _counted() -> Iterator[dict[str, Any]]:
    """Count what Triton compiles and what it loads instead."""
    from triton import knobs

    tally: dict[str, Any] = {"compiled": 0, "loaded": 0, "stages": {}}

    def note(*, times: Any, cache_hit: bool, **_: Any) -> None:
        tally["loaded" if cache_hit else "compiled"] += 1
        stages = () if cache_hit else (("ast", times.ir_initialization), *times.lowering_stages)
        for name, microseconds in stages:
            tally["stages"][name] = tally["stages"].get(name, 0.0) + microseconds / 1e6

    with replaced(knobs.compilation, listener=note):
        yield tally
