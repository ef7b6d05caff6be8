"""Seconds and samples that one kernel may take, and what the engine holds a claim against."""

from __future__ import annotations

from dataclasses import dataclass

# Of one timing case, fresh sets of inputs are laid out by isolation level: at most so many, of so many bytes with their
# outputs. The longer an audit, the better it tells; what is less than two sets is no batch.
MOST_SETS = {"strict": (32, 5 << 30), "shared": (16, 2 << 30)}
LEAST_SETS = 2
BATCH_SETS = 16  # that are timed before anybody looks
PAUSE_S = 0.02  # before something is tried again that others may have disturbed


@dataclass(frozen=True)
class Limits:
    """Seconds that a stage of one kernel may take, and how precisely a case is timed.

    Sampling of a case ends when the 95% interval of the median is within `precision` of it, or at `max_samples`.
    `check_cases` and `timing_cases` are how many of the task's cases are used, drawn at random for each
    kernel and in order respectively; 0 is all of them. `method` is how calls are timed: `graph` (falls back to `event`
    where a kernel cannot be captured), `event`, or `cupti`.
    """

    start_s: float = 60.0
    build_s: float = 120.0
    check_s: float = 30.0
    timing_s: float = 60.0
    precision: float = 0.005
    min_samples: int = 8
    max_samples: int = 32
    max_case_s: float = 1.5
    check_cases: int = 0
    timing_cases: int = 0
    method: str = "graph"

    def __post_init__(self) -> None:
        if self.method not in ("graph", "event", "cupti"):
            raise ValueError(f"timing method '{self.method}' is unknown; expected graph, event or cupti")
        for name in ("start_s", "build_s", "check_s", "timing_s", "max_case_s", "precision"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected more than 0")


class InfrastructureError(OSError):
    """The engine failed, not the kernel: the measurement may be tried again."""


class Disturbed(InfrastructureError):
    """Something else used the GPU or its driver while a kernel was timed."""


class Contradicted(Disturbed):
    """A claimed time that the engine's own watch does not confirm, though nobody else seems to use the GPU now."""


class Failed(Exception):
    """A kernel ended in a status other than ok, in some stage."""

    def __init__(self, status: str, stage: str, error: str) -> None:
        super().__init__(error)
        self.status, self.stage, self.error = status, stage, error
