"""Time kernels roughly in this process, to see whether a task's seeds are worth starting from."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tasks.report import EMPTY

CALLS = 10
WARM_CALLS = 3
FLUSH_BYTES = 256 << 20
AHEAD_CYCLES = 1_000_000  # the device idles this long before a call, so that the host's launches are ahead of it


def rough_times(kernels: Mapping[str, Callable[[Any], Any]], data: tuple[torch.Tensor, ...]) -> dict[str, float]:
    """Return the median microseconds of each kernel on the data: CUDA events around eager calls, cold L2.

    EMPTY is among them: an operation on one element, so that it shows what a launch takes.
    """
    flush, one = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda"), torch.zeros(1, device="cuda")
    kernels = {**kernels, EMPTY: lambda _: one.neg()}
    with torch.no_grad():
        for kernel in kernels.values():
            for _ in range(WARM_CALLS):
                kernel(data)
        times: dict[str, list[float]] = {name: [] for name in kernels}
        for _ in range(CALLS):
            for name, kernel in kernels.items():
                times[name].append(_one(kernel, data, flush))
    return {name: statistics.median(values) for name, values in times.items()}


def _one(kernel: Callable[[Any], Any], data: tuple[torch.Tensor, ...], flush: torch.Tensor) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    flush.zero_()
    torch.cuda._sleep(AHEAD_CYCLES)
    start.record()
    kernel(data)
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e3
