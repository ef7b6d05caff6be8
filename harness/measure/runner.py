"""What a child does with one kernel: load it, call it on shared inputs, and have it timed.

Every function that is used while foreign code may have run is bound before the kernel's source is imported, so that a
kernel that patches torch changes nothing here.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.measure import nvrtc
from harness.measure.launches import Launches
from harness.measure.region import Driver, Region, Slot
from harness.measure.restore import Baseline
from harness.measure.timing import Timing, Wrong

MEMORY_SHARE = 0.3  # of the device's, that a kernel may have PyTorch allocate beside its stage: others run, too


class NoKernel(Exception):
    """The file is not a kernel file."""


def load_kernel(workdir: Path, code: str, name: str) -> Callable[..., Any]:
    """Write the source to a file of its own, import it, and return its `custom_kernel`. Raises NoKernel."""
    path = workdir / f"{name}.py"
    path.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    kernel = getattr(module, "custom_kernel", None)
    if not callable(kernel):
        raise NoKernel("the file defines no function custom_kernel(data)")
    return kernel


class Runner:
    """State of one child: the kernel, the mapped regions, and the prepared timing case."""

    def __init__(self, workdir: Path, device: str) -> None:
        import torch

        self.workdir, self.device = workdir, device
        self.torch = torch
        self.kernel: Callable[..., Any] | None = None
        self.launches = Launches()
        self.loaded = 0
        self.region: Region | None = None
        self.mapped: dict[str, Region] = {}
        if device == "cuda":
            torch.cuda.init()
            torch.empty(1, device="cuda")
            self.timing = Timing(torch)
            self.driver: Driver | None = self.timing.driver
            self.synchronize = torch.cuda.synchronize
            torch.cuda.set_per_process_memory_fraction(MEMORY_SHARE)
            self.raw_stream = torch._C._cuda_getCurrentRawStream
            self.launches.watch()
        else:
            torch.set_num_threads(1)
            self.driver = None
            self.synchronize = lambda: None
        self.tensor_type, self.is_contiguous = torch.Tensor, torch.Tensor.is_contiguous
        self.data_ptr = torch.Tensor.data_ptr
        self.full = torch.full

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Import the kernel's source; `cache`, a folder in this one, holds what was compiled for it ahead of time."""
        if request["cache"]:
            built = self.workdir / request["cache"]
            os.environ["TRITON_CACHE_DIR"] = str(built / "triton")
            nvrtc.use_compiled_cache(built / "nvrtc")
        self.loaded += 1
        self.kernel = load_kernel(self.workdir, request["code"], self.module_name)
        return {}

    @property
    def module_name(self) -> str:
        return "kernel_source" if self.loaded <= 1 else f"kernel_source_{self.loaded}"

    def attach(self, request: dict[str, Any]) -> Region:
        name = request["region"]
        if name not in self.mapped:
            self.mapped[name] = Region.attach(self.device, request["nbytes"], request["handle"], self.driver)
        self.region = self.mapped[name]
        return self.region

    def detach(self, _: dict[str, Any]) -> dict[str, Any]:
        """Let go of all that is bound to the region; it stays mapped, for another stage may use it."""
        if self.device == "cuda":
            self.timing.detach()
        self.region = None
        return {}

    def baseline(self) -> None:
        """Remember the state of this process, to which `reset` returns."""
        self.before = Baseline(self.torch, self.device == "cuda")
        self.nvrtc_compile = self.torch.cuda._utils._nvrtc_compile

    def reset(self, request: dict[str, Any]) -> dict[str, Any]:
        """Forget the kernel, unmap `evict` and put the process back; the answer names what could not be put back."""
        self.detach({})
        for name in request["evict"]:
            if name in self.mapped:
                self.mapped.pop(name).release()
        self.kernel = None
        self.launches.forget()
        self.torch.cuda._utils._nvrtc_compile = self.nvrtc_compile
        return {"anomalies": self.before.restore((self.module_name,))}

    def poison(self, nbytes: int) -> None:
        """Leave NaN in the blocks that the allocator will hand out next."""
        block = self.full((max(nbytes, 16),), 0xFF, dtype=self.torch.uint8, device=self.device)
        del block

    def call(self, data: tuple[Any, ...], outputs: Sequence[Slot], writes: Sequence[int]) -> tuple[Any, ...]:
        """Call the kernel and return its outputs, checked for everything but their values."""
        assert self.kernel is not None
        result = self.kernel(data)
        found = result if type(result) in (tuple, list) else (result,)
        if len(found) != len(outputs):
            raise Wrong(f"{len(found)} outputs, expected {len(outputs)}")
        kept = [self.data_ptr(t) for i, t in enumerate(data) if i not in writes and type(t) is self.tensor_type]
        for place, (tensor, want) in enumerate(zip(found, outputs, strict=True)):
            if type(tensor) is not self.tensor_type:
                raise Wrong(f"output {place} is a {type(tensor).__name__}, expected exactly torch.Tensor")
            dtype = str(tensor.dtype).removeprefix("torch.")
            if tuple(tensor.shape) != want.shape or dtype != want.dtype or tensor.device.type != self.device:
                found_text = f"{dtype}{list(tensor.shape)} on {tensor.device.type}"
                raise Wrong(f"output {place} is {found_text}, expected {want.dtype}{list(want.shape)} on {self.device}")
            if not self.is_contiguous(tensor):
                raise Wrong(f"output {place} is not contiguous")
            if want.nbytes and self.data_ptr(tensor) in kept:
                raise Wrong(f"output {place} is an input tensor")
        return tuple(found)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy bytes by the driver, on the current stream: no tensor method of the kernel's can intervene."""
        if not nbytes:
            return
        if self.driver is None:
            ctypes.memmove(target, source, nbytes)
            return
        stream = self.raw_stream(0)
        code = self.driver.lib.cuMemcpyDtoDAsync_v2(
            ctypes.c_uint64(target), ctypes.c_uint64(source), ctypes.c_size_t(nbytes), ctypes.c_void_p(stream)
        )
        self.driver.check(code, "cuMemcpyDtoDAsync")

    def take(self, region: Region, pointers: Sequence[int], slots: Sequence[Slot]) -> None:
        for pointer, slot in zip(pointers, slots, strict=True):
            self.copy(region.pointer + slot.offset, pointer, slot.nbytes)

    def check(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call the kernel on every case of the region and hand the outputs over."""
        region = self.attach(request)
        start = time.monotonic()
        for case in request["cases"]:
            for call in case["calls"]:
                data = region.tensors([Slot.from_json(s) for s in call["inputs"]])
                outputs = [Slot.from_json(s) for s in call["outputs"]]
                self.poison(sum(s.nbytes for s in outputs))
                try:
                    found = self.call(data, outputs, request["writes"])
                except Wrong as error:
                    raise Wrong(f"case {case['case_id']}: {error}") from None
                self.synchronize()
                self.take(region, [self.data_ptr(t) for t in found], outputs)
                self.synchronize()
        return {"seconds": time.monotonic() - start}

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Get a timing case ready, see `Timing.prepare`."""
        region, writes = self.attach(request), request["writes"]
        outputs = [Slot.from_json(slot) for slot in request["out"]]
        self.launches.noted = True
        answer = self.timing.prepare(lambda data: self.call(data, outputs, writes), region, request)
        self.launches.noted = False
        return answer

    def facts(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return static facts of the kernels that the timing cases launch."""
        return {"facts": self.launches.facts()}
