"""One place in the search tree, what was measured there, and what was forecast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmark.query import Forecast
from harness.measure.result import Measurement


@dataclass(frozen=True)
class Score:
    """The speculative score of an unmeasured kernel, in log2 speedup over the reference.

    `log2` is the mean given that the kernel works, `variance` what the forecasts along its unmeasured ancestors add
    up to, `log2_ok` the log2 probability that it and they work.
    """

    log2: float
    variance: float
    log2_ok: float

    @property
    def lower(self) -> float:
        """The mean with the probability of failure applied, minus one standard deviation: what the archive uses."""
        return self.log2 + self.log2_ok - math.sqrt(self.variance)


@dataclass(frozen=True)
class CaseMedian:
    """Median times of one timing case in microseconds."""

    case_id: str
    candidate_us: float
    reference_us: float


def geomean_us(cases: Sequence[CaseMedian]) -> float | None:
    """Return the geometric mean of a candidate's median times over cases in microseconds, None without a case."""
    if not cases:
        return None
    return math.exp(math.fsum(math.log(case.candidate_us) for case in cases) / len(cases))


@dataclass(frozen=True)
class Confirmation:
    """What the measurement in `strict` said of a kernel that had been measured in `shared`; fields as of `Node`."""

    status: str
    value: float | None
    error: str = ""
    cases: tuple[CaseMedian, ...] = ()


@dataclass(frozen=True)
class Node:
    """One place in the search tree; `value` is the log2 speedup over the reference, None if failed or unmeasured.

    `isolation` is that of its measurement.
    """

    node_id: str
    kernel_id: str
    code: str
    language: str
    step: int
    seed_id: str
    parent_node_id: str | None = None
    origin: str = "seed"
    operator: str | None = None
    operator_class: str | None = None
    status: str | None = None
    value: float | None = None
    error: str = ""
    cases: tuple[CaseMedian, ...] = ()
    isolation: str | None = None
    confirmation: Confirmation | None = None
    forecast: Forecast | None = None
    score: Score | None = None

    @property
    def standing(self) -> float | None:
        """What the archive ranks the node by: the measured value, else the speculative one; None if it has neither."""
        if self.status is not None:
            return self.value
        return None if self.score is None else self.score.lower

    @property
    def time_us(self) -> float | None:
        """The geometric mean of the median times over the timing cases in microseconds, where it was timed."""
        return geomean_us(self.cases)

    @property
    def reported(self) -> float | None:
        """The log2 speedup to report: as confirmed where it was, None if it failed, then or before."""
        return self.value if self.confirmation is None else self.confirmation.value

    @property
    def reported_isolation(self) -> str | None:
        """The isolation level at which the speedup to report was measured."""
        return self.isolation if self.confirmation is None else "strict"


def case_medians(measurement: Measurement) -> tuple[CaseMedian, ...]:
    """Return the median times of each timing case of a measurement."""
    return tuple(
        CaseMedian(case.case_id, median(case.candidate_ns) / 1e3, median(case.reference_ns) / 1e3)
        for case in measurement.cases
    )


def log2_speedup(measurement: Measurement) -> float | None:
    """Return the mean over timing cases of log2(median reference time / median candidate time); None if it failed.

    A correct kernel without times (a backend that only checks) is worth 0.
    """
    if measurement.status != "ok":
        return None
    logs = [math.log2(case.reference_us / case.candidate_us) for case in case_medians(measurement)]
    return math.fsum(logs) / len(logs) if logs else 0.0
