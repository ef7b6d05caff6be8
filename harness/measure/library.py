"""Inputs with their expected outputs, kept by the judge: the oracle is asked once for several kernels.

An entry serves a limited number of kernels and never the same kernel twice, so that no kernel meets inputs that it saw
before. Entries are dropped, least recently used first, when they hold more than a given number of bytes.
"""

from __future__ import annotations

import itertools
import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from harness.measure.region import Form
from tasks.compare import bad_elements, mismatch, rms
from tasks.spec import Tolerance

DEPTH = 4
MAX_USES = 16
_numbers = itertools.count()


@dataclass(eq=False)
class Known:
    """Inputs, and what the oracle makes of them in float64; `floors[i]` is the absolute tolerance of output i.

    `outputs` are the forms that the outputs of a kernel must have.
    """

    inputs: tuple[torch.Tensor, ...]
    outputs: tuple[Form, ...]
    expected: tuple[torch.Tensor, ...]
    tolerances: tuple[Tolerance, ...]
    floors: tuple[float, ...] = field(default=())

    def __post_init__(self) -> None:
        pairs = zip(self.tolerances, self.expected, strict=True)
        self.floors = tuple(tolerance.atol * rms(exact) for tolerance, exact in pairs)

    @property
    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in (*self.inputs, *self.expected))

    def bad(self, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return how many elements of the outputs are wrong, a 0-d tensor on the device, without waiting for it."""
        rows = zip(outputs, self.expected, self.tolerances, self.floors, strict=True)
        return torch.stack([bad_elements(out, exact, t.rtol, floor) for out, exact, t, floor in rows]).sum()

    def why(self, outputs: Sequence[torch.Tensor]) -> str | None:
        """Return what is wrong with the outputs in one line, None if they pass."""
        return mismatch(tuple(outputs), self.expected, self.tolerances, outputs)


@dataclass(eq=False)
class Entry:
    """What is drawn as a whole: one set of inputs, or a set and its near twin."""

    sets: tuple[Known, ...]
    used: int = 0
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def nbytes(self) -> int:
        return sum(known.nbytes for known in self.sets)


class Library:
    """Entries by key; `draw` gives one that its caller has not had."""

    def __init__(self, max_bytes: int, max_uses: int = MAX_USES, depth: int = DEPTH) -> None:
        self.max_bytes, self.max_uses, self.depth = max_bytes, max_uses, depth
        self._entries: OrderedDict[tuple[str, ...], list[Entry]] = OrderedDict()
        self._random = random.SystemRandom()
        self.made = 0

    def draw(self, key: tuple[str, ...], make: Callable[[], Entry], had: set[int]) -> Entry:
        """Return an entry of this key whose number is not in `had`, and add it there; `make` builds a new one."""
        entries = self._entries.setdefault(key, [])
        self._entries.move_to_end(key)
        fresh = [entry for entry in entries if entry.number not in had]
        if fresh and len(entries) >= self.depth:
            chosen = self._random.choice(fresh)
        else:
            chosen = make()
            self.made += 1
            entries.append(chosen)
        had.add(chosen.number)
        chosen.used += 1
        if chosen.used >= self.max_uses or len(entries) > self.depth:
            entries.remove(chosen)
        self._shrink(key)
        return chosen

    def _shrink(self, keep: tuple[str, ...]) -> None:
        while sum(e.nbytes for entries in self._entries.values() for e in entries) > self.max_bytes:
            oldest = next(iter(self._entries))
            if oldest == keep:
                self._entries[keep] = []
                return
            del self._entries[oldest]
