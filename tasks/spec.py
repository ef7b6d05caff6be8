"""What a task is: data that describes it, apart from the functions that need torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SOURCES = ("gpu_mode", "operator", "network")
FAMILIES = ("norm", "matmul", "attention", "scan", "conv", "quantise", "reduce", "block", "loss")
SEED_SPLITS = ("train", "validation", "test")
EVERY_SEED = "*"
Ranges = Mapping[str, tuple[int, ...]]  # name of a constant at the top of a kernel file -> the values it may have


@dataclass(frozen=True)
class Case:
    """One input shape, dtype and distribution.

    `params` are the keyword arguments of the task's `make_inputs`. `bytes` is the least traffic through device memory
    (each input read once, each output written once) and `flops` the operations of the plain algorithm: the roofline
    floor follows from them. `cpu` says whether the interpreter can run the case in reasonable time.
    """

    case_id: str
    params: Mapping[str, Any]
    bytes: int
    flops: int
    cpu: bool = False


@dataclass(frozen=True)
class Tolerance:
    """An element passes if |out - expected| <= rtol |expected| + atol RMS(expected), expected from the fp64 oracle."""

    rtol: float
    atol: float


@dataclass(frozen=True)
class Task:
    """One operation: what a forecaster is told, the cases, and how its outputs are judged.

    The functions stand in the module `tasks.NAME.reference`, which imports torch:
    `make_inputs(generator, device, **params) -> tuple of tensors`, `reference(data) -> tensor or tuple of tensors`
    (timed, and the denominator of the absolute speedup) and `oracle(data) -> tuple of float64 tensors`.
    `tolerances(params)` gives one Tolerance per output. `writes` are the positions in `data` that a kernel may
    overwrite and return (pre-allocated outputs); every other input must come back unchanged and may not be returned.
    `seeds` divides the seed kernels between the splits. `timing_cases` are the headline, sized for an H200;
    `small_timing_cases` fit a card with 24 GB (none: the headline does too), and `paper_timing_cases` are the published
    shapes of a task of the paper. `constants` are the ranges of integer constants at the top of a kernel file, by seed,
    or under EVERY_SEED for all seeds: a search gives them other values there, also in what descends from the seed. They
    stand here because a seed says nothing but code.
    """

    name: str
    source: str
    family: str
    statement: str
    check_cases: tuple[Case, ...]
    timing_cases: tuple[Case, ...]
    tolerances: Callable[[Mapping[str, Any]], tuple[Tolerance, ...]]
    seeds: Mapping[str, tuple[str, ...]]
    writes: tuple[int, ...] = ()
    small_timing_cases: tuple[Case, ...] = ()
    paper_timing_cases: tuple[Case, ...] = ()
    notes: str = ""
    sources: tuple[str, ...] = ()
    cpu_skip: Mapping[str, str] = field(default_factory=dict)  # seed name -> why the interpreter cannot run it
    twins: bool = True  # elements of two draws of the inputs may be mixed; false where they are not independent
    constants: Mapping[str, Ranges] = field(default_factory=dict)

    @property
    def timing_sets(self) -> Mapping[str, tuple[Case, ...]]:
        """The sets of timing cases by name: `h200` (the headline), `small`, and `paper` where there are such shapes."""
        sets = {"h200": self.timing_cases, "small": self.small_timing_cases or self.timing_cases}
        return sets | ({"paper": self.paper_timing_cases} if self.paper_timing_cases else {})

    @property
    def all_cases(self) -> tuple[Case, ...]:
        """Every case, checking cases first; cases of equal parameters count once."""
        found: dict[str, Case] = {}
        for case in (*self.check_cases, *(case for part in self.timing_sets.values() for case in part)):
            found.setdefault(repr(sorted(case.params.items())), case)
        return tuple(found.values())
