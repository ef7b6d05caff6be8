"""The outcome of measuring one kernel: a value that every backend returns and every log stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

STAGES = ("build", "check", "timing")


@dataclass(frozen=True)
class CaseTimes:
    """Raw samples of one timing case in whole nanoseconds, with their place in the recorded order of both sides."""

    case_id: str
    candidate_ns: tuple[float, ...]
    candidate_order: tuple[int, ...]
    reference_ns: tuple[float, ...]
    reference_order: tuple[int, ...]
    method: str  # graph | event | cupti
    dropped: int = 0


@dataclass(frozen=True)
class Measurement:
    """Compile, check and timing of one kernel on one GPU.

    `status` is ok, compile, runtime, incorrect, timeout, oom or rejected; `stage` names where a failed one ended.
    Only an ok measurement carries `cases`. `facts` are static facts of the compiled kernels (registers, spills,
    shared_bytes, cubin_hash), where known. `process` numbers the kernel's run within the session. `wait_s` is the time
    spent waiting for the GPU, `context_s` the time that its process took to start; both lie beside the others.
    """

    kernel_id: str
    task: str
    status: str
    error: str = ""
    stage: str = ""
    cases: tuple[CaseTimes, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    compile_s: float = 0.0
    check_s: float = 0.0
    timing_s: float = 0.0
    wait_s: float = 0.0
    context_s: float = 0.0
    isolation: str = "strict"
    session_id: str = ""
    process: int = 0
    measured_at: str = ""

    def __post_init__(self) -> None:
        if self.status != "ok" and self.cases:
            raise ValueError(f"{self.kernel_id}: a measurement with status '{self.status}' carries no times")

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Measurement:
        """Return the measurement that `to_json` wrote; unknown fields of a later version are ignored."""
        known = {k: v for k, v in row.items() if k in cls.__dataclass_fields__}
        rows = known.pop("cases", ())
        cases = (CaseTimes(**{k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}) for row in rows)
        return cls(cases=tuple(cases), **known)
