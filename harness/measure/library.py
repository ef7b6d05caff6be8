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

from harness.measure.counting import count_bad
from harness.measure.region import Form
from tasks.compare import mismatch, rms
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
    bounds: tuple[torch.Tensor, ...] = field(default=())  # (rtol, floor) of each output, on its device

    def __post_init__(self) -> None:
        pairs = list(zip(self.tolerances, self.expected, strict=True))
        self.floors = tuple(tolerance.atol * rms(exact) for tolerance, exact in pairs)
        self.bounds = tuple(
            torch.tensor((tolerance.rtol, floor), dtype=torch.float64, device=exact.device)
            for (tolerance, exact), floor in zip(pairs, self.floors, strict=True)
        )

    @property
    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in (*self.inputs, *self.expected))

    def bad(self, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return how many elements of the outputs are wrong, a 0-d tensor on the device, without waiting for it."""
        rows = zip(outputs, self.expected, self.tolerances, self.floors, self.bounds, strict=True)
        return torch.stack([count_bad(out, exact, t.rtol, *rest) for out, exact, t, *rest in rows]).sum()

    def why(self, outputs: Sequence[torch.Tensor]) -> str | None:
        """Return what is wrong with the outputs in one line, None if they pass."""
        return mismatch(tuple(outputs), self.expected, self.tolerances, outputs)


@dataclass(eq=False)
class Entry:
    """What is drawn as a whole: one set of inputs, or a set and its near twin."""

    sets: tuple[Known, ...]
    used: int = 0
    number: int = field(default_factory=lambda: next(_numbers))
    nbytes: int = 0

    def __post_init__(self) -> None:
        self.nbytes = sum(known.nbytes for known in self.sets)


class Library:
    """Entries by key; `draw` gives one that its caller has not had."""

    def __init__(self, max_bytes: int, max_uses: int = MAX_USES, depth: int = DEPTH) -> None:
        self.max_bytes, self.max_uses, self.depth = max_bytes, max_uses, depth
        self._entries: OrderedDict[tuple[str, ...], list[Entry]] = OrderedDict()
        self._random = random.SystemRandom()
        self._nbytes = 0
        self.made = 0

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()
        self._nbytes = 0

    def draw(self, key: tuple[str, ...], make: Callable[[], Entry], had: set[int], depth: int = 0) -> Entry:
        """Return an entry of this key whose number is not in `had`, and add it there; `make` builds a new one.

        `depth` is how many entries are kept for this key, if not as many as for others.
        """
        depth = depth or self.depth
        entries = self._entries.setdefault(key, [])
        self._entries.move_to_end(key)
        fresh = [entry for entry in entries if entry.number not in had]
        if fresh and len(entries) >= depth:
            chosen = self._random.choice(fresh)
        else:
            chosen = make()
            self.made += 1
            entries.append(chosen)
            self._nbytes += chosen.nbytes
        had.add(chosen.number)
        chosen.used += 1
        if chosen.used >= self.max_uses or len(entries) > depth:
            entries.remove(chosen)
            self._nbytes -= chosen.nbytes
        while self._nbytes > self.max_bytes:  # the key that was drawn from goes last
            _, dropped = self._entries.popitem(last=False)
            self._nbytes -= sum(entry.nbytes for entry in dropped)
        return chosen
