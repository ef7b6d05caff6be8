"""How a child times its kernel on a GPU: cold, one captured graph per set of inputs, outputs where the judge sees them.

All that is used while foreign code may have run is bound before the kernel's source is imported, so that a kernel that
patches torch changes nothing here. What the process still claims is held against the engine's own watch.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from harness.measure.arena import Arena
from harness.measure.cupti import Trace
from harness.measure.region import Driver, Region, Slot, hold_cycles

MAX_WARM_CALLS = 8
WARM_SETS = 2
CALIBRATIONS = 7
# What the device does beyond the two events of a call shows as time around them; so much of it, in the middle of a
# batch, is noise. Around eager calls it includes the host learning that the device is idle.
AROUND_NS = {"graph": 2_000.0, "event": 15_000.0}


class Wrong(Exception):
    """The kernel broke the contract: its output has the wrong type, shape, dtype or place."""


class Timing:
    """One timing case at a time: `prepare`, then `batch` and `audit` as often as asked, then `detach`."""

    def __init__(self, torch: Any) -> None:
        cuda = torch.cuda
        self.driver = Driver()
        l2 = cuda.get_device_properties(0).L2_cache_size
        self.flush = torch.empty(max(64 << 20, 2 * l2), dtype=torch.uint8, device="cuda")
        self.flush_at = ctypes.c_uint64(self.flush.data_ptr()), ctypes.c_size_t(self.flush.numel())
        self.memset, self.reset_persisting = (
            self.driver.lib.cuMemsetD8Async, self.driver.lib.cuCtxResetPersistingL2Cache
        )  # fmt: skip
        self.stream, self.set_stream = cuda.current_stream(), cuda.set_stream
        self.stream_at = ctypes.c_void_p(self.stream.cuda_stream)
        self.synchronize, self.hold = cuda.synchronize, cuda._sleep
        self.hold_cycles = {method: hold_cycles(self.driver, method) for method in ("graph", "event")}
        self.event, self.elapsed, self.record = cuda.Event, cuda.Event.elapsed_time, cuda.Event.record
        self.graph, self.replay = cuda.CUDAGraph, cuda.CUDAGraph.replay
        self.capture_begin, self.capture_end = cuda.CUDAGraph.capture_begin, cuda.CUDAGraph.capture_end
        self.capture_stream, self.end_pool = cuda.Stream(), torch._C._cuda_endAllocateToPool
        self.into_pool, self.out_of_memory = cuda.use_mem_pool, torch.OutOfMemoryError
        self.data_ptr, self.numel = torch.Tensor.data_ptr, torch.Tensor.numel
        self.arena = Arena(torch)
        self.region: Region | None = None
        self.call: Callable[[Any], tuple[Any, ...]] = lambda data: ()
        self.data: list[tuple[Any, ...]] = []
        self.graphs: list[tuple[Any, Any, Any]] = []  # graph, first and last event in it
        self.keep: list[Any] = []  # outputs live as long as somebody holds them
        self.captured: list[list[int]] = []  # offsets in the region, of the outputs of each set's graph
        self.called: list[list[int]] = []  # and of its last eager call
        self.around_ns = {"graph": 0.0, "event": 0.0}
        self.tiny: tuple[Any, ...] = ()

    def calibrate(self, _: dict[str, Any]) -> dict[str, Any]:
        """Learn what passes around the events of a tiny graph and of a tiny eager call.

        The least of a few. To be asked before foreign code is there, and while nobody else uses the device.
        """
        one = self.flush[:1]
        tiny = self.tiny = self._capture(one.zero_, None)
        for method, once in (("graph", lambda: self._around(tiny)), ("event", lambda: self._eager(one.zero_))):
            self.around_ns[method] = min(whole - inside for inside, whole in (once() for _ in range(CALIBRATIONS)))
        return {}

    def idle(self, _: dict[str, Any]) -> dict[str, Any]:
        """Do next to nothing on the device: what an audit takes without its calls. To be asked after `calibrate`."""
        self.replay(self.tiny[0])
        self.synchronize()
        return {}

    def detach(self) -> None:
        """Let go of all that is bound to the region."""
        self.data, self.graphs, self.keep, self.captured, self.called = [], [], [], [], []
        self.call = lambda data: ()
        self.synchronize()
        self.arena.close()
        self.region = None

    def prepare(
        self, call: Callable[[Any], tuple[Any, ...]], region: Region, request: dict[str, Any]
    ) -> dict[str, Any]:
        """Warm up, and capture one graph per set of inputs; without, eager calls are timed.

        `call` calls the kernel and checks the form of its outputs. The answer has `method`, `seconds` (of the warm-up),
        `audited` (graph or event: what an audit will run), `capture_error`, and `missing`, which is above 0 if the
        arena is too small: then there has to be one of so many bytes.
        """
        self.call, self.region = call, region
        self.data = [region.tensors([Slot.from_json(s) for s in group]) for group in request["pool"]]
        self.captured, self.called = ([[] for _ in self.data] for _ in range(2))
        seconds, error, method, missing = self._warm_up(), "", request["method"], 0
        bounds = [region.pointer + place for place in request["arena"]]
        self.arena.open(*bounds)
        try:
            for index in range(len(self.data)):
                work = partial(self._placed, index, self.captured)
                self.graphs.append(self._capture(work, self.arena))
            self.synchronize()
        except Wrong:
            self._end_capture()
            raise
        except Exception as caught:  # whatever stops the capture, eager calls can still be timed
            missing = self.arena.missing
            error, method = f"{type(caught).__name__}: {caught}"[:200], "event" if method == "graph" else method
            self._end_capture()
            self.arena.open(*bounds)
        if method != "graph" and not missing:
            missing = self._fits()
        audited = "graph" if self.graphs else "event"
        return {
            "method": method, "seconds": seconds, "audited": audited, "capture_error": error, "missing": missing,
        }  # fmt: skip

    def _warm_up(self) -> float:
        """Call on some sets until two rounds take as long; returns seconds."""
        start, previous = time.monotonic(), float("inf")
        for _ in range(MAX_WARM_CALLS):
            began = time.monotonic()
            for data in self.data[:WARM_SETS]:
                self.call(data)
            self.synchronize()
            spent = time.monotonic() - began
            if spent > 0.8 * previous:
                break
            previous = spent
        return time.monotonic() - start

    def _fits(self) -> int:
        """Call eagerly on every set as a batch does; returns how large the arena would have to be, 0 if it is."""
        try:
            for index in range(len(self.data)):
                self._pooled(index)
            self.synchronize()
        except self.out_of_memory:
            if not self.arena.missing:
                raise
        self.keep = self.keep[: len(self.graphs)]
        return self.arena.missing

    def _placed(self, index: int, offsets: list[list[int]]) -> None:
        """Call on one set, keep its outputs, and note where in the region they are. Raises Wrong if they are not."""
        assert self.region is not None
        found = self.call(self.data[index])
        places = [self.data_ptr(t) - self.region.pointer if self.numel(t) else 0 for t in found]
        for output, place in enumerate(places):
            if not 0 <= place < self.region.nbytes:
                raise Wrong(f"output {output} is not new memory: PyTorch did not allocate it during the call")
        self.keep.append(found)
        offsets[index] = places

    def _pooled(self, index: int) -> None:
        with self.into_pool(self.arena.pool):
            self._placed(index, self.called)

    def _capture(self, work: Callable[[], None], arena: Arena | None) -> tuple[Any, Any, Any]:
        # Events inside the graph leave the launch of the graph itself out of the time. Not by `torch.cuda.graph`, which
        # gives all cached memory back first: the driver is slow to take and give it.
        start, end = (self.event(enable_timing=True, external=True) for _ in range(2))
        graph = self.graph()
        self.synchronize()
        self.set_stream(self.capture_stream)
        pool = () if arena is None else (arena.pool.id,)
        self.capture_begin(graph, *pool, capture_error_mode="thread_local")
        try:
            self.record(start)
            work()
            self.record(end)
        finally:
            self.capture_end(graph)
        self.set_stream(self.stream)
        return graph, start, end

    def _end_capture(self) -> None:
        """Leave a capture that failed: its stream stays current, and the allocator believes that it goes on."""
        self.graphs, self.keep = [], []
        self.set_stream(self.stream)
        with contextlib.suppress(RuntimeError):
            self.end_pool(0, self.arena.pool.id)
        self.synchronize()
        self.arena.close(stuck=True)

    def cool(self, method: str = "") -> None:
        """Empty the L2 cache: lines that were made to persist become ordinary ones, and all are then overwritten.

        The device must be idle: what puts lines back runs beside all other work. With a `method`, the device is held
        first, so that the host can get ahead.
        """
        self.reset_persisting()
        if method:
            self.hold(self.hold_cycles[method])
        self.driver.check(self.memset(*self.flush_at[:1], ctypes.c_ubyte(0), self.flush_at[1], self.stream_at), "flush")

    def _around(self, captured: tuple[Any, Any, Any]) -> tuple[float, float]:
        """Replay once, cold; returns nanoseconds between the events inside, and from the flush to the end of all."""
        graph, start, end = captured
        cooled, after = (self.event(enable_timing=True) for _ in range(2))
        self.cool("graph")
        self.record(cooled, self.stream)
        self.replay(graph)
        self.record(after, self.stream)
        self.synchronize()
        return float(self.elapsed(start, end)) * 1e6, float(self.elapsed(cooled, after)) * 1e6

    def _eager(self, work: Callable[[], None]) -> tuple[float, float]:
        """Call once, cold; returns nanoseconds on the stream, and until the device was idle and the host knew."""
        start, end, drained = (self.event(enable_timing=True) for _ in range(3))
        self.cool("event")
        self.record(start, self.stream)
        work()
        self.record(end, self.stream)
        self.synchronize()
        self.record(drained, self.stream)
        self.synchronize()
        return float(self.elapsed(start, end)) * 1e6, float(self.elapsed(start, drained)) * 1e6

    def batch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time one cold call on each of the first `count` sets; returns nanoseconds per call.

        And `outputs`: the offsets in the region of the outputs of each set.
        """
        self.set_stream(self.stream)
        self.keep = self.keep[: len(self.graphs)]
        method, indices = request["method"], range(request["count"])
        if method == "cupti":
            trace = Trace()
            for index in indices:
                self.cool()
                self.synchronize()
                trace.call(partial(self._pooled, index))
                self.synchronize()
            return {"ns": trace.stop(), "outputs": self.called}
        if method == "graph":
            times = [self._around(self.graphs[index]) for index in indices]
            return {"ns": honest(times, self.around_ns[method], AROUND_NS[method]), "outputs": self.captured}
        # Work on another stream or by another thread shows as a device that is busy after the stream is done.
        times = [self._eager(partial(self._pooled, index)) for index in indices]
        return {"ns": honest(times, self.around_ns[method], AROUND_NS[method]), "outputs": self.called}

    def audit(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call on the first `count` sets without a pause; the engine holds the watch. Returns `outputs`.

        In the order in which the graphs were captured: they share memory for what is temporary, and what an earlier one
        has for its outputs is no such memory of a later one.
        """
        self.set_stream(self.stream)
        self.keep = self.keep[: len(self.graphs)]
        for index in range(request["count"]):
            if self.graphs:
                self.replay(self.graphs[index][0])
            else:
                self._pooled(index)
        self.synchronize()
        return {"outputs": self.captured if self.graphs else self.called}


def honest(times: Sequence[tuple[float, float]], around_ns: float, noise_ns: float) -> list[float]:
    """Return the time of each call from pairs of ns: between its own events, and between events around it.

    Its own events count, unless around them more passes than around those of a tiny call, by more than noise.
    """
    more = sorted(whole - inside - around_ns for inside, whole in times)[len(times) // 2]
    return [whole - around_ns if more > noise_ns else inside for inside, whole in times]
