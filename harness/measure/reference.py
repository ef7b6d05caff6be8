"""The task's reference on one timing case: captured once per input slot, and timed as a candidate is."""

from __future__ import annotations

import contextlib
import statistics
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness.measure.cupti import Trace
from harness.measure.region import Driver, hold_cycles

SLOTS = 2
REMEMBERED, SLOWER = 64, 1.15


class Reference:
    """Runs `reference(data)` cold on fresh values; holds its own input slots, bound into one graph each.

    `graphs` is empty where the reference cannot be captured; it is then timed by events, as its candidates must be.
    """

    def __init__(
        self, run: Callable[[Any], Any], data: Sequence[tuple[torch.Tensor, ...]], flush: torch.Tensor
    ) -> None:
        self.run, self.data, self.flush = run, data, flush
        self.hold_cycles = hold_cycles(Driver(), "event")
        self.medians: dict[str, deque[float]] = {}
        self.graphs: list[tuple[torch.cuda.CUDAGraph, torch.cuda.Event, torch.cuda.Event]] = []
        for one in data:
            for _ in range(3):
                run(one)
        torch.cuda.synchronize()
        # Replays never overlap, so the graphs may share their memory.
        pool, stream = torch.cuda.graph_pool_handle(), torch.cuda.current_stream()
        try:
            self._capture(pool)
        except RuntimeError:  # it waits for the device, say
            self.graphs.clear()
            # A capture that fails leaves its stream current, and the allocator in the belief that it goes on.
            torch.cuda.set_stream(stream)
            with contextlib.suppress(RuntimeError):
                torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)
            torch.cuda.synchronize()

    def _capture(self, pool: Any) -> None:
        for one in self.data:
            graph = torch.cuda.CUDAGraph()
            start, end = (torch.cuda.Event(enable_timing=True, external=True) for _ in range(2))
            with torch.cuda.graph(graph, pool=pool):
                start.record()
                self.run(one)
                end.record()
            self.graphs.append((graph, start, end))

    def slow(self, times: Sequence[float], method: str) -> bool:
        """Return whether these times are much longer than the last ones were at best: something may hold it up.

        It is also told of those that are, so that a device which has become slower is believed in the end.
        """
        known, median = self.medians.setdefault(method, deque(maxlen=REMEMBERED)), statistics.median(times)
        known.append(median)
        return median > SLOWER * min(known)

    def times(self, batch: Sequence[Sequence[torch.Tensor]], method: str) -> list[float]:
        """Return nanoseconds of one cold call on each set of fresh values."""
        trace = Trace() if method == "cupti" else None
        found = []
        for turn, values in enumerate(batch):
            slot = turn % len(self.data)
            for target, source in zip(self.data[slot], values, strict=True):
                target.copy_(source)
            if method == "event":  # so that the host gets ahead
                torch.cuda._sleep(self.hold_cycles)
            self.flush.zero_()
            if trace is None:
                found.append(self._time(slot, method))
            else:
                torch.cuda.synchronize()
                trace.call(lambda data=self.data[slot]: self.run(data))
                torch.cuda.synchronize()
        return found if trace is None else trace.stop()

    def _time(self, slot: int, method: str) -> float:
        if method == "graph":
            graph, start, end = self.graphs[slot]
            graph.replay()
        else:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self.run(self.data[slot])
            end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) * 1e6
