"""Times of calls as the GPU's own activity records give them, through torch.profiler (CUPTI).

Slow to start (seconds, once in a process) and exact: for validation, and for lanes that live long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MARK = "kernelcast-call-"


class IncompleteTrace(RuntimeError):
    """A launch has no activity record, so that the time of its call is not known."""


class Trace:
    """Records calls; each call's time spans from its first device activity's start to its last one's end."""

    def __init__(self) -> None:
        from torch.profiler import ProfilerActivity, profile, record_function

        self._range = record_function
        self._profile = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True)
        self._count = 0
        self._profile.__enter__()

    def call(self, function: Callable[[], Any]) -> Any:
        """Run one call under a mark of its own."""
        with self._range(f"{MARK}{self._count}"):
            self._count += 1
            return function()

    def stop(self) -> list[float]:
        """Return nanoseconds per call. Raises IncompleteTrace."""
        self._profile.__exit__(None, None, None)
        events = list(self._profile.profiler.kineto_results.events())
        return call_times(
            [
                (e.name(), str(e.device_type()).endswith("CUDA"), e.correlation_id(), e.start_ns(), e.duration_ns())
                for e in events
            ],
            self._count,
        )


def call_times(events: list[tuple[str, bool, int, int, int]], calls: int) -> list[float]:
    """Return each call's device time from (name, on device, correlation id, start ns, duration ns) rows.

    Launches belong to a call by the host's clock, device activities to launches by correlation id: the two clocks are
    never compared. Raises IncompleteTrace for a call without activities, or a kernel launch without its own.
    """
    marks = {
        name: (start, start + span) for name, device, _, start, span in events if name.startswith(MARK) and not device
    }
    device = {key: (start, start + span) for _, on, key, start, span in events if on and key}
    launches = sorted((start, key, name) for name, on, key, start, _ in events if not on and key and _launches(name))
    times = []
    for number in range(calls):
        low, high = marks[f"{MARK}{number}"]
        mine = [(key, name) for start, key, name in launches if low <= start <= high]
        missing = [name for key, name in mine if key not in device]
        if missing or not mine:
            raise IncompleteTrace(f"call {number}: {f'no record of {missing[0]}' if missing else 'no launch'}")
        spans = [device[key] for key, _ in mine]
        times.append(float(max(end for _, end in spans) - min(start for start, _ in spans)))
    return times


def _launches(name: str) -> bool:
    return "Launch" in name or "Memcpy" in name or "Memset" in name
