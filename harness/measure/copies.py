"""Whether something else uses the GPU: the judge's own copies, of which it knows how long they take, tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

DISTURBED = 1.5  # copies that take so many times what they took
LEAST_NS = 200_000.0  # and so much longer
JITTER = 1.1  # what copies may take of what they took at least, and are believed to have taken


class Copies:
    """Watches copies of a kind, and remembers the least that one of them took."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.least: dict[tuple[str, ...], float] = {}
        self._now: tuple[tuple[str, ...], int] = ((), 1)
        self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if device == "cuda" else []

    @contextmanager
    def watched(self, key: tuple[str, ...], count: int) -> Iterator[None]:
        """Watch `count` copies of this kind, one after the other on the current stream."""
        self._now = key, count
        for event in self._events[:1]:
            event.record()
        yield
        for event in self._events[1:]:
            event.record()

    def disturbed(self) -> bool:
        """Return whether the last copies took much longer than they can; the device must have been waited for."""
        if not self._events:
            return False
        return self.slow(*self._now, 1e6 * float(self._events[0].elapsed_time(self._events[1])))

    def took(self) -> float:
        """Return the seconds that the last copies took at least: a kernel that ran beside them did not stretch them."""
        if not self._events:
            return 0.0
        key, count = self._now
        ns = 1e6 * float(self._events[0].elapsed_time(self._events[1]))
        return min(ns, JITTER * count * self.least[key]) / 1e9

    def slow(self, key: tuple[str, ...], count: int, ns: float) -> bool:
        """Return whether `count` copies of this kind should not have taken so many nanoseconds together."""
        self.least[key] = min(self.least.get(key, ns / count), ns / count)
        return ns > DISTURBED * count * self.least[key] + LEAST_NS
