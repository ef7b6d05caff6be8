"""Memory of the judge from which PyTorch allocates while a kernel is timed, so that its outputs need not be copied.

A copy that the engine allows for is time that a dishonest process could keep for itself.
"""

from __future__ import annotations

import ctypes
from typing import Any

GRAIN = 2 << 20  # segments that PyTorch asks for are multiples of it
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)


class Arena:
    """An allocator of PyTorch's kind over a stretch of addresses, front to back; what is released stays used.

    `missing` is 0, or how many bytes there would have to be for the allocation that failed.
    """

    def __init__(self, torch: Any) -> None:
        self._make_pool = torch.cuda.MemPool
        # Both have to live as long as the process: PyTorch calls them.
        self._allocate, self._release = ALLOCATE(self._give), RELEASE(lambda *_: None)
        functions = (ctypes.cast(f, ctypes.c_void_p).value for f in (self._allocate, self._release))
        self._allocator = torch._C._cuda_customAllocator(*functions)
        self._stuck: list[Any] = []
        self.pool: Any = None
        self._start = self._next = self._end = self.missing = 0

    def open(self, start: int, end: int) -> None:
        """Give out the addresses from `start` to `end`, which nothing else uses."""
        self._start = self._next = -(-start // GRAIN) * GRAIN
        self._end, self.missing = end, 0
        self.pool = self._make_pool(self._allocator)

    def close(self, stuck: bool = False) -> None:
        """Give out nothing more. A pool that is `stuck` in a failed capture must not be destroyed: PyTorch aborts."""
        if stuck:
            self._stuck.append(self.pool)
        self.pool = None
        self._start = self._next = self._end = 0

    def _give(self, nbytes: int, device: int, stream: int | None) -> int | None:
        place, after = self._next, self._next + -(-nbytes // GRAIN) * GRAIN
        if after > self._end:
            self.missing = after - self._start
            return None
        self._next = after
        return place
