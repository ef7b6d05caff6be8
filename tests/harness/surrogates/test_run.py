"""Asking a surrogate that misbehaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from benchmark.query import Forecast, Query
from harness.surrogates.run import forecast_all, invalid

UNIFORM = (0.125,) * 8


def query(number: int) -> Query:
    return Query(f"p-{number:03d}", "pairs", "rms_norm", "", "parent", "a = 1", f"a = {number}", 10.0, "H200")


def numbered(log2: float) -> Forecast:
    return Forecast(probabilities=UNIFORM, log2_speedup=log2)


class Recorder:
    """Answers with the number in the query's id, and keeps the batches that it saw."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        self.batches.append([q.query_id for q in queries])
        return [self.answer(q) for q in queries]

    def answer(self, q: Query) -> Forecast:
        return numbered(float(q.query_id[2:]))


def test_queries_are_sorted_and_batched_and_answers_keep_the_given_order() -> None:
    surrogate = Recorder()
    answers = forecast_all(surrogate, [query(n) for n in (3, 1, 2)], batch=2)
    assert surrogate.batches == [["p-001", "p-002"], ["p-003"]]
    assert [a.log2_speedup for a in answers] == [3.0, 1.0, 2.0]


def test_a_transductive_surrogate_sees_everything_at_once() -> None:
    surrogate = Recorder()
    surrogate.transductive = True  # type: ignore[attr-defined]
    forecast_all(surrogate, [query(n) for n in range(5)], batch=2)
    assert [len(b) for b in surrogate.batches] == [5]


def test_progress_counts_every_query_once() -> None:
    seen: list[int] = []
    forecast_all(Recorder(), [query(n) for n in range(5)], batch=2, progress=seen.append)
    assert seen == [2, 2, 1]


def test_no_queries_is_no_call() -> None:
    surrogate = Recorder()
    assert forecast_all(surrogate, []) == []
    assert surrogate.batches == []


class RaisesOnSeven(Recorder):
    error: BaseException = ValueError("seven")

    def answer(self, q: Query) -> Forecast:
        if q.query_id == "p-007":
            raise self.error
        return super().answer(q)


@pytest.mark.parametrize("error", [ValueError("seven"), SystemExit(3), MemoryError(), GeneratorExit()])
def test_one_query_that_raises_costs_only_itself(error: BaseException) -> None:
    surrogate = RaisesOnSeven()
    surrogate.error = error
    told: dict[str, str] = {}
    answers = forecast_all(surrogate, [query(n) for n in range(20)], batch=16, report=told.__setitem__)
    assert [i for i, a in enumerate(answers) if a.status == "error"] == [7]
    assert all(a.log2_speedup == i for i, a in enumerate(answers) if i != 7)
    assert list(told) == ["p-007"]
    assert type(error).__name__ in told["p-007"]


def test_an_interrupt_is_not_swallowed() -> None:
    surrogate = RaisesOnSeven()
    surrogate.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        forecast_all(surrogate, [query(n) for n in range(20)])


class DropsSeven(Recorder):
    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        return [self.answer(q) for q in queries if q.query_id != "p-007"]


def test_a_wrong_number_of_rows_is_traced_to_the_query() -> None:
    told: dict[str, str] = {}
    answers = forecast_all(DropsSeven(), [query(n) for n in range(20)], report=told.__setitem__)
    assert [i for i, a in enumerate(answers) if a.status == "error"] == [7]
    assert told == {"p-007": "ValueError: returned 0 forecasts for 1 queries"}


class ReturnsNone:
    def forecast(self, queries: Sequence[Query]) -> None:
        return None


def test_a_surrogate_that_answers_nothing_gives_only_errors() -> None:
    answers = forecast_all(ReturnsNone(), [query(n) for n in range(3)])  # type: ignore[arg-type]
    assert [a.status for a in answers] == ["error"] * 3


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Forecast(UNIFORM), None),
        (Forecast((0.12500001,) * 8), None),
        (Forecast(None, status="refused"), None),
        ((0.125,) * 8, "returned tuple"),
        (Forecast(None), "no probabilities, expected 8"),
        (Forecast(p for p in UNIFORM), "generator probabilities"),  # type: ignore[arg-type]
        (Forecast(np.full(8, 0.125)), None),  # type: ignore[arg-type]
        (Forecast(np.full((8, 1), 0.125)), "not all finite"),  # type: ignore[arg-type]
        (Forecast(UNIFORM, seconds=-1.0), "seconds is -1.0"),
        (Forecast(UNIFORM, input_tokens="12"), "input_tokens is '12'"),  # type: ignore[arg-type]
        (Forecast(UNIFORM, output_tokens=np.int64(12)), None),  # type: ignore[arg-type]
        (Forecast((0.25,) * 4), "4 probabilities, expected 8"),
        (Forecast((float("nan"), *UNIFORM[1:])), "not all finite"),
        (Forecast((-0.125, 0.375, *UNIFORM[2:])), "at least 0"),
        (Forecast((0.2,) * 8), "sum to 1.6"),
        (Forecast(("a",) * 8), "not all finite"),  # type: ignore[arg-type]
        (Forecast(UNIFORM, log2_speedup=float("nan")), "log2_speedup is nan"),
        (Forecast(UNIFORM, log2_speedup=-64.5), "log2_speedup is -64.5, expected a number in [-64, 64]"),
        (Forecast(UNIFORM, rank_score=float("inf")), "rank_score is inf"),
        (Forecast(UNIFORM, p_fail=1.5), "p_fail is 1.5"),
        (Forecast(UNIFORM, status="fine"), "status 'fine'"),
        (Forecast(UNIFORM, status="refused"), "given with status"),
    ],
)
def test_what_makes_a_forecast_invalid(answer: object, words: str | None) -> None:
    problem = invalid(answer)
    assert problem is None if words is None else problem is not None and words in problem


@pytest.mark.parametrize("take", ["queries.pop()", "queries.clear()", "queries.append(queries[0])"])
def test_a_surrogate_cannot_change_what_it_is_asked(take: str) -> None:
    class Takes(Recorder):
        def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
            exec(take)
            return super().forecast(queries)

    told: dict[str, str] = {}
    answers = forecast_all(Takes(), [query(n) for n in range(3)], report=told.__setitem__)
    assert [a.status for a in answers] == ["error"] * 3
    assert all("AttributeError: 'tuple' object has no attribute" in problem for problem in told.values())


def test_fields_that_cannot_even_be_checked_cost_only_their_query() -> None:
    class Odd(Recorder):
        def answer(self, q: Query) -> Forecast:
            return Forecast(UNIFORM, seconds=10**400) if q.query_id == "p-001" else super().answer(q)

    told: dict[str, str] = {}
    answers = forecast_all(Odd(), [query(n) for n in range(3)], report=told.__setitem__)
    assert [a.status for a in answers] == ["ok", "error", "ok"]
    assert "OverflowError" in told["p-001"]


def test_an_invalid_answer_becomes_an_error_and_the_batch_is_kept() -> None:
    class NotANumber(Recorder):
        def answer(self, q: Query) -> Forecast:
            return numbered(float("nan")) if q.query_id == "p-002" else super().answer(q)

    surrogate = NotANumber()
    answers = forecast_all(surrogate, [query(n) for n in range(5)])
    assert [a.status for a in answers] == ["ok", "ok", "error", "ok", "ok"]
    assert len(surrogate.batches) == 1


def test_a_rank_score_for_some_only_costs_the_others() -> None:
    class Mixed(Recorder):
        def answer(self, q: Query) -> Forecast:
            return Forecast(UNIFORM, rank_score=None if q.query_id == "p-001" else 1.0)

    told: dict[str, str] = {}
    answers = forecast_all(Mixed(), [query(n) for n in range(3)], report=told.__setitem__)
    assert [a.status for a in answers] == ["ok", "error", "ok"]
    assert list(told) == ["p-001"] and "no rank_score" in told["p-001"]
