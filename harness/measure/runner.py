"""What a child does with one kernel: load it, call it on shared inputs, and time it cold.

Every function that is used while foreign code may have run is bound before the kernel's source is imported, so that a
kernel that patches torch changes nothing here.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.measure import nvrtc
from harness.measure.cupti import Trace
from harness.measure.launches import Launches
from harness.measure.region import Driver, Region, Slot, hold_cycles
from harness.measure.restore import Baseline

MAX_WARM_CALLS = 8
SIDE_WORK_SLACK_NS = 30_000.0
MEMORY_SHARE = 0.3  # of the device's, that a kernel may have PyTorch allocate beside its stage: others run, too


class Wrong(Exception):
    """The kernel broke the contract: its output has the wrong type, shape, dtype or place."""


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
            self.driver: Driver | None = Driver()
            l2 = torch.cuda.get_device_properties(0).L2_cache_size
            self.flush = torch.empty(max(64 << 20, 2 * l2), dtype=torch.uint8, device="cuda")
            self.synchronize = torch.cuda.synchronize
            torch.cuda.set_per_process_memory_fraction(MEMORY_SHARE)
            self.event, self.elapsed, self.record = (
                torch.cuda.Event,
                torch.cuda.Event.elapsed_time,
                torch.cuda.Event.record,
            )
            self.raw_stream = torch._C._cuda_getCurrentRawStream
            self.stream, self.set_stream = torch.cuda.current_stream(), torch.cuda.set_stream
            self.hold, self.hold_cycles = torch.cuda._sleep, hold_cycles(self.driver)
            self.new_pool, self.end_pool = torch.cuda.graph_pool_handle, torch._C._cuda_endAllocateToPool
            self.graph, self.replay = torch.cuda.CUDAGraph, torch.cuda.CUDAGraph.replay
            self.capture_begin, self.capture_end = torch.cuda.CUDAGraph.capture_begin, torch.cuda.CUDAGraph.capture_end
            self.capture_stream = torch.cuda.Stream()
            self.reset_persisting = self.driver.lib.cuCtxResetPersistingL2Cache
            self.launches.watch()
        else:
            torch.set_num_threads(1)
            self.driver = None
            self.synchronize = lambda: None
        self.tensor_type, self.is_contiguous = torch.Tensor, torch.Tensor.is_contiguous
        self.data_ptr, self.numel = torch.Tensor.data_ptr, torch.Tensor.numel
        self.element_size, self.zero, self.full = torch.Tensor.element_size, torch.Tensor.zero_, torch.full
        self.data: list[tuple[Any, ...]] = []
        self.graphs: list[Any] = []
        self.keep: list[Any] = []  # a graph's outputs live as long as somebody holds them
        self.events: list[tuple[Any, Any]] = []
        self.outputs: list[list[int]] = []
        self.pool: Any = (0, 0)  # of the graph that is being captured

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
        self.data, self.graphs, self.keep, self.events, self.outputs = [], [], [], [], []
        self.synchronize()
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

    def put(self, region: Region, sources: Sequence[Slot], targets: Sequence[Slot]) -> None:
        for source, target in zip(sources, targets, strict=True):
            self.copy(region.pointer + target.offset, region.pointer + source.offset, source.nbytes)

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
        """Warm up on every input slot of a timing case and capture one graph per slot; falls back to eager calls."""
        region = self.attach(request)
        self.case = {k: [[Slot.from_json(s) for s in group] for group in request[k]] for k in ("slots", "pool", "out")}
        writes, slots = request["writes"], self.case["slots"]
        start, self.launches.noted = time.monotonic(), True
        self.data = [region.tensors(slot) for slot in slots]
        previous = float("inf")
        for _ in range(MAX_WARM_CALLS):
            began = time.monotonic()
            for data in self.data:
                self.call(data, self.case["out"][0], writes)
            self.synchronize()
            spent = time.monotonic() - began
            if spent > 0.8 * previous:
                break
            previous = spent
        compile_s = time.monotonic() - start
        self.writes = writes
        error, method = "", request["method"]
        try:
            for data in self.data if method == "graph" else ():
                self._capture(data)
            self.synchronize()
        except Exception as caught:  # whatever stops the capture, eager calls can still be timed
            error, method = f"{type(caught).__name__}: {caught}"[:200], "event"
            self.graphs.clear()
            # A capture that fails leaves its stream current, and the allocator in the belief that it goes on.
            self.set_stream(self.stream)
            with contextlib.suppress(RuntimeError):
                self.end_pool(0, self.pool)
            self.synchronize()
        self.launches.noted = False
        return {"method": method, "seconds": compile_s, "capture_error": error}

    def _capture(self, data: tuple[Any, ...]) -> None:
        # Events inside the graph leave the launch of the graph itself out of the time.
        start, end = (self.event(enable_timing=True, external=True) for _ in range(2))
        graph, self.pool = self.graph(), self.new_pool()
        # Not by `torch.cuda.graph`, which gives all cached memory back first: the driver is slow to take and give it.
        self.synchronize()
        self.set_stream(self.capture_stream)
        self.capture_begin(graph, self.pool, capture_error_mode="thread_local")
        try:
            self.record(start)
            found = self.call(data, self.case["out"][0], self.writes)
            self.record(end)
        finally:
            self.capture_end(graph)
        self.set_stream(self.stream)
        self.graphs.append(graph)
        self.keep.append(found)
        self.events.append((start, end))
        self.outputs.append([self.data_ptr(t) for t in found])

    def batch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time one call on each fresh input set, cold, and hand every output over; returns nanoseconds per call."""
        region = self.region
        assert region is not None
        times = []
        trace = Trace() if request["method"] == "cupti" else None
        for index, pool in enumerate(self.case["pool"]):
            slot = (request["first"] + index) % len(self.data)
            self.put(region, pool, self.case["slots"][slot])
            out = self.case["out"][index]
            if trace is None:
                times.append(self.timed(region, slot, out, request["method"]))
            else:
                self.traced(region, slot, out, trace)
        return {"ns": times if trace is None else trace.stop()}

    def cool(self) -> None:
        """Empty the L2 cache: lines that were made to persist become ordinary ones, and all are then overwritten."""
        self.reset_persisting()
        self.zero(self.flush)

    def traced(self, region: Region, slot: int, out: Sequence[Slot], trace: Trace) -> None:
        """One cold call whose time the trace knows."""
        self.poison(sum(s.nbytes for s in out))
        self.cool()
        self.synchronize()
        found = trace.call(lambda: self.call(self.data[slot], out, self.writes))
        self.synchronize()
        self.take(region, [self.data_ptr(t) for t in found], out)
        self.synchronize()

    def timed(self, region: Region, slot: int, out: Sequence[Slot], method: str) -> float:
        if method == "graph":
            self.cool()
            self.replay(self.graphs[slot])
            self.take(region, self.outputs[slot], out)
            self.synchronize()
            return float(self.elapsed(*self.events[slot])) * 1e6
        start, end, drained = (self.event(enable_timing=True) for _ in range(3))
        self.poison(sum(s.nbytes for s in out))
        self.cool()
        self.hold(self.hold_cycles)
        self.record(start)
        found = self.call(self.data[slot], out, self.writes)
        self.record(end)
        self.synchronize()
        self.record(drained)
        self.take(region, [self.data_ptr(t) for t in found], out)
        self.synchronize()
        on_stream = float(self.elapsed(start, end)) * 1e6
        on_device = float(self.elapsed(start, drained)) * 1e6
        # Work on another stream or by another thread shows as a device that is busy long after the stream is done.
        return on_device if on_device > on_stream + SIDE_WORK_SLACK_NS else on_stream

    def audit(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call by call of `order`, as slot and set of fresh inputs, without a pause; the engine holds the watch."""
        region = self.region
        assert region is not None
        for slot, index in request["order"]:
            self.put(region, self.case["pool"][index], self.case["slots"][slot])
            out = self.case["out"][index]
            if request["method"] == "graph":
                self.replay(self.graphs[slot])
                self.take(region, self.outputs[slot], out)
            else:
                found = self.call(self.data[slot], out, self.writes)
                self.take(region, [self.data_ptr(t) for t in found], out)
        self.synchronize()
        return {}

    def facts(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return static facts of the kernels that the timing cases launch."""
        return {"facts": self.launches.facts()}
