"""What a timing method reads for a kernel that does nothing: the part of every time that is not the operation's."""

from __future__ import annotations

import statistics

import torch

from harness.measure.reference import SLOTS, Reference

WARM_CALLS, CALLS = 15, 15  # the clocks of a device that was idle rise during the first


def empty_kernel_ns(method: str, flush: torch.Tensor) -> float:
    """Return the median nanoseconds of an elementwise operation on one element, timed cold as a reference is.

    `method` is graph, event or cupti; `flush` is a CUDA tensor larger than the L2 cache, which is overwritten.
    """
    one = torch.zeros(1, device=flush.device)
    empty = Reference(lambda data: data[0].neg(), [(one.clone(),) for _ in range(SLOTS)], flush)
    return statistics.median(empty.times([(one,)] * (WARM_CALLS + CALLS), method)[WARM_CALLS:])
