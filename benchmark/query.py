"""What a surrogate sees and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

TRACKS = ("pairs", "eval", "pool", "replay", "end-to-end")
OFFLINE_TRACKS = ("pairs", "eval", "pool")
SPLITS = ("train", "validation", "test", "test_unseen_task")
TEST_SPLITS = ("test", "test_unseen_task")


@dataclass(frozen=True)
class Query:
    """One question: how much faster is the candidate than the anchor on this hardware?

    Codes are views (comments, docstrings and telling names removed). `anchor_time_us` is the anchor's measured
    geometric-mean time over the task's timing cases, in microseconds. `facts` are the task's declared facts: cases with
    shapes and dtypes, bytes and floating-point operations per case; for the class `compiled` also `compiled`.
    """

    query_id: str
    track: str
    task: str
    statement: str
    anchor_kind: str  # reference | parent
    anchor_code: str
    candidate_code: str
    anchor_time_us: float | None
    hardware: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Forecast:
    """The answer to one query: eight bin probabilities, and what it cost.

    `probabilities[b]` belongs to bin b + 1. `status` is ok, unparsed, refused or error; only `ok` carries
    probabilities. `log2_speedup`, `rank_score` (higher is faster) and `p_fail` are optional.
    """

    probabilities: Sequence[float] | None
    log2_speedup: float | None = None
    rank_score: float | None = None
    p_fail: float | None = None
    status: str = "ok"
    seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


@runtime_checkable
class Surrogate(Protocol):
    """Anything that maps queries to forecasts, one for each query, in their order."""

    def forecast(self, queries: Sequence[Query]) -> Sequence[Forecast]: ...
