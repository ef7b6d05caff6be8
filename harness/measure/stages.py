"""What the judge keeps of one kernel's course: the stage that is open, what was shown, and how outputs compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import tasks
from harness.measure.library import Known
from harness.measure.region import Form, Region, Slot
from tasks.spec import Case, Task


@dataclass
class Stage:
    """A region that a child works in, and what was put there."""

    task: Task
    region: Region
    calls: list[tuple[Case, Known, list[Slot], list[Slot]]] = field(default_factory=list)
    pool: list[list[Slot]] = field(default_factory=list)
    arena: tuple[int, int] = (0, 0)  # first offset and last of what the kernel allocates
    out: list[Form] = field(default_factory=list)  # forms of the outputs of a timed call
    looked: tuple[int, Known] | None = None  # the set of the last batch whose outputs are looked at
    shown: list[tuple[torch.Tensor, ...]] = field(default_factory=list)  # what the sets of the last batch held

    def suspicion(self, known: Known, inputs: Sequence[Slot], found: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Return a count that is zero if the outputs pass and the inputs are intact, without waiting for the device."""
        changed = [
            differs(self.region.tensor(slot), value)
            for place, (value, slot) in enumerate(zip(known.inputs, inputs, strict=True))
            if place not in self.task.writes
        ]
        check = getattr(tasks.implementation(self.task.name), "check", None)
        if check is not None:
            bad = torch.tensor(int(check(known.inputs, found) is not None), device=self.region.device)
        else:
            bad = known.bad(found)
        return torch.stack([bad.to(torch.int64), *changed]).sum()

    def found(self, offsets: Any, index: int) -> tuple[torch.Tensor, ...] | None:
        """Return the outputs of set `index` that lie at these offsets, as a child says; None if they cannot.

        They can lie in the arena, or be an input that kernels write to.
        """
        if not isinstance(offsets, list) or len(offsets) != len(self.out):
            return None
        written = [self.pool[index][place].offset for place in self.task.writes]
        first, last = self.arena
        slots = []
        for offset, form in zip(offsets, self.out, strict=True):
            fits = type(offset) is int and (
                offset in written or (first <= offset <= last - form.nbytes and not offset % form.itemsize)
            )
            if form.nbytes and not fits:
                return None
            slots.append(Slot(offset if form.nbytes else 0, *form))
        return self.region.tensors(slots)

    def why(self, known: Known, inputs: Sequence[Slot], found: tuple[torch.Tensor, ...]) -> str:
        """Return what is wrong, in one line."""
        for place, (value, slot) in enumerate(zip(known.inputs, inputs, strict=True)):
            if place not in self.task.writes and bool(differs(self.region.tensor(slot), value)):
                return f"input {place} was changed by the kernel"
        check = getattr(tasks.implementation(self.task.name), "check", None)
        why = check(known.inputs, found) if check is not None else known.why(found)
        return why or "the outputs changed after they were handed over"


@dataclass
class Run:
    """What one kernel was shown, and the regions that its process may still see; it has one stage at a time.

    `holder` names a process that lives on after the run, and keeps regions mapped; "" is one that does not.
    """

    holder: str
    had: set[int] = field(default_factory=set)
    stages: dict[int, Stage] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)


def as_json(slots: Sequence[Slot]) -> list[dict[str, Any]]:
    """Return slots as `Slot.from_json` reads them."""
    return [{"offset": s.offset, "shape": list(s.shape), "dtype": s.dtype, "nbytes": s.nbytes} for s in slots]


def differs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return whether any byte differs, as a 0-d int64 tensor on the device."""
    one, other = (t.contiguous().reshape(-1).view(torch.uint8) for t in (a, b))
    places = (one.numel(), one.storage_offset(), other.storage_offset())
    if all(place % 8 == 0 for place in places):  # eight bytes at a time
        one, other = one.view(torch.int64), other.view(torch.int64)
    return (one != other).any().to(torch.int64)


def case_of(cases: Sequence[Case], case_id: str) -> Case:
    """Return the case of this id."""
    return next(case for case in cases if case.case_id == case_id)
