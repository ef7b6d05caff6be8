"""What a task is: data that describes it, apart from the functions that need torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SOURCES = ("gpu_mode", "operator", "network")
FAMILIES = ("norm", "matmul", "attention", "scan", "conv", "quantise", "reduce", "block", "loss")
SEED_SPLITS = ("train", "validation", "test")


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
    `seeds` divides the seed kernels between the splits. `small_timing_cases` fit a card with 24 GB.
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
    notes: str = ""
    sources: tuple[str, ...] = ()
    cpu_skip: Mapping[str, str] = field(default_factory=dict)  # seed name -> why the interpreter cannot run it
    twins: bool = True  # elements of two draws of the inputs may be mixed; false where they are not independent
