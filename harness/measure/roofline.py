"""The least time that a case can take on a GPU, generously: what reads faster than this was not measured right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case

# Four times the operations per cycle and multiprocessor of FP8 on Hopper (8192), so that an algorithm with fewer
# operations than the plain one is not refused.
OPERATIONS_PER_CYCLE = 32768.0
FASTER_THAN_PEAK = 1.1


def floor_ns(case: Case, device: Mapping[str, Any]) -> float:
    """Return nanoseconds below which no kernel can be; 0 where the device is not known.

    `device` is what the judge says of the GPU: peak_bytes_per_s, L2_cache_size, multi_processor_count, sm_clock_hz.
    Of what the kernel writes, as much as the L2 cache holds need not have reached memory when it ends, and does not
    count; inputs are cold.
    """
    if not device:
        return 0.0
    moved = max(case.bytes - device["L2_cache_size"], 0)
    seconds = moved / device["peak_bytes_per_s"]
    rate = device["multi_processor_count"] * device["sm_clock_hz"] * OPERATIONS_PER_CYCLE
    return max(seconds, case.flops / rate) * 1e9 / FASTER_THAN_PEAK
