"""What decides the course of a search: its configuration, and the problem that it works on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tasks
from harness.search.arms import ARMS
from tasks.declared import wrong_constants
from tasks.spec import Ranges, Task

SELECTIONS = ("puct", "uniform")
_AT_LEAST_ONE = ("budget", "parents_per_step", "children_per_parent", "measured_per_parent")


@dataclass(frozen=True)
class SearchConfig:
    """What decides the course of a search; the log keeps it and refuses to go on under another one.

    `budget` is the number of candidate measurements, those of the seeds included and those of parents measured again
    beside their children left out. Every arm proposes `children_per_parent` children; arms that choose measure
    `measured_per_parent` of them. `selection` is `puct`, or `uniform`: parents drawn at random from the correct kernels
    that were not expanded yet, independently of their speed, to grow a tree for replay. `confirmations` kernels, the
    fastest ones, are measured in `strict` at the end, beside the budget, of a search that measures in `shared`.
    """

    search_id: str
    task: str
    split: str
    seeds: tuple[str, ...]
    budget: int
    seed: int = 0
    parents_per_step: int = 2
    children_per_parent: int = 8
    measured_per_parent: int = 2
    c_puct: float = 1.0
    arm: str = "gpu-only"
    surrogate: str | None = None
    selection: str = "puct"
    measure_parents_again: bool = True
    confirmations: int = 3

    def __post_init__(self) -> None:
        if self.arm not in ARMS:
            raise ValueError(f"{self.search_id}: unknown arm '{self.arm}'; known arms: {', '.join(ARMS)}")
        if self.selection not in SELECTIONS:
            known = ", ".join(SELECTIONS)
            raise ValueError(f"{self.search_id}: unknown selection '{self.selection}'; known selections: {known}")
        if not self.seeds:
            raise ValueError(
                f"{self.search_id}: split '{self.split}' of task '{self.task}' has no seeds; choose another"
            )
        for name, least in (*((name, 1) for name in _AT_LEAST_ONE), ("confirmations", 0)):
            value = getattr(self, name)
            if type(value) is not int or value < least:
                wanted = f"at least {least}" if type(value) is int else "an integer"
                raise ValueError(f"{self.search_id}: {name} is {value!r}, expected {wanted}")
        if ARMS[self.arm].order != "all" and self.measured_per_parent > self.children_per_parent:
            raise ValueError(
                f"{self.search_id}: measured_per_parent is {self.measured_per_parent}, expected at most "
                f"children_per_parent, which is {self.children_per_parent}"
            )
        if ARMS[self.arm].asks and self.surrogate is None:
            raise ValueError(f"{self.search_id}: arm '{self.arm}' follows a surrogate; name one with --surrogate")
        if not ARMS[self.arm].asks and self.surrogate is not None:
            raise ValueError(
                f"{self.search_id}: arm '{self.arm}' asks no surrogate; leave '{self.surrogate}' out, or choose an arm "
                f"that does: {', '.join(name for name, arm in ARMS.items() if arm.asks)}"
            )

    def logged(self) -> dict[str, Any]:
        """Return what the first event of the log keeps, as JSON values; the id stands beside it."""
        rows = dataclasses.asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in rows.items() if k != "search_id"}


@dataclass(frozen=True)
class Problem:
    """A task as a search sees it: what the log keeps of it, the source of each seed by name, and declared constants."""

    description: Mapping[str, Any]
    seed_code: Callable[[str], str]
    constants: Mapping[str, Ranges] = field(default_factory=dict)


def registered_problem(name: str) -> Problem:
    """Return the problem of a task of this installation.

    Raises KeyError, with the names that exist, and ValueError for constants that the task declares wrongly.
    """
    task = tasks.get(name)
    if wrong := wrong_constants(task):
        raise ValueError(f"task {name}, constants: {wrong[0]}")
    return Problem(describe_task(task), lambda seed: tasks.seed_code(name, seed), task.constants)


def describe_task(task: Task) -> dict[str, Any]:
    """Return what the log keeps of a task: statement, reference and cases."""
    cases = [(case, False) for case in task.check_cases] + [(case, True) for case in task.timing_cases]
    return {
        "name": task.name,
        "source": task.source,
        "family": task.family,
        "statement": task.statement,
        "reference_code": tasks.reference_code(task.name),
        "cases": [
            {"case_id": c.case_id, "params": dict(c.params), "bytes": c.bytes, "flops": c.flops, "timing": timing}
            for c, timing in cases
        ],
    }
