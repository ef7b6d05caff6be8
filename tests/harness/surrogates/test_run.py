"""Asking a surrogate that misbehaves."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmark.query import Forecast, Query
from harness.surrogates.answer_log import AnswerLog
from harness.surrogates.foreign import Unavailable
from harness.surrogates.run import MOST_HANGS, Manner, forecast_all
from harness.surrogates.validity import invalid

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
    told: dict[str, str] = {}
    answers = forecast_all(ReturnsNone(), [query(n) for n in range(3)], report=told.__setitem__)  # type: ignore[arg-type]
    assert [a.status for a in answers] == ["error"] * 3
    problem = "TypeError: forecast() returned NoneType, expected a list with a Forecast for each query"
    assert set(told.values()) == {problem}


class RaisesTwoLines:
    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        raise RuntimeError("first\n  second")


def test_what_went_wrong_is_told_in_one_line() -> None:
    told: dict[str, str] = {}
    forecast_all(RaisesTwoLines(), [query(1)], report=told.__setitem__)
    assert told == {"p-001": "RuntimeError: first second"}


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


def test_every_answer_says_how_long_it_took_unless_the_surrogate_does() -> None:
    class Slow(Recorder):
        def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
            time.sleep(0.02)
            return [Forecast(UNIFORM, seconds=7.0 if q.query_id == "p-001" else None) for q in queries]

    answers = forecast_all(Slow(), [query(n) for n in range(2)])
    assert answers[1].seconds == 7.0
    assert answers[0].seconds is not None and 0.01 <= answers[0].seconds < 5


class HangsOn(Recorder):
    """Never answers about some queries; `leave` lets its threads end."""

    def __init__(self, *numbers: int) -> None:
        super().__init__()
        self.ids = {f"p-{n:03d}" for n in numbers}
        self.leave = threading.Event()

    def answer(self, q: Query) -> Forecast:
        if q.query_id in self.ids:
            self.leave.wait(60)
        return super().answer(q)


def test_a_query_that_hangs_costs_only_itself() -> None:
    surrogate = HangsOn(3)
    told: dict[str, str] = {}
    answers = forecast_all(
        surrogate, [query(n) for n in range(8)], report=told.__setitem__, manner=Manner(batch=4, timeout_s=0.2)
    )
    surrogate.leave.set()
    assert [i for i, a in enumerate(answers) if a.status == "error"] == [3]
    assert told == {"p-003": "no answer in 0.2 s"}


def test_after_some_hangs_in_a_row_the_others_are_not_asked() -> None:
    surrogate = HangsOn(*range(3, 20))
    told: dict[str, str] = {}
    start = time.monotonic()
    answers = forecast_all(
        surrogate, [query(n) for n in range(20)], report=told.__setitem__, manner=Manner(batch=1, timeout_s=0.1)
    )
    surrogate.leave.set()
    assert time.monotonic() - start < 5
    assert [a.status for a in answers] == ["ok"] * 3 + ["error"] * 17
    assert sum("not asked" in problem for problem in told.values()) == 17 - MOST_HANGS


def test_a_limit_that_is_kept_changes_nothing() -> None:
    class Raises(Recorder):
        def answer(self, q: Query) -> Forecast:
            if q.query_id == "p-001":
                raise SystemExit(3)
            return super().answer(q)

    told: dict[str, str] = {}
    answers = forecast_all(Raises(), [query(n) for n in range(3)], report=told.__setitem__, manner=Manner(timeout_s=30))
    assert [a.status for a in answers] == ["ok", "error", "ok"]
    assert told == {"p-001": "SystemExit: 3"}


class Meets(Recorder):
    """Answers only when two calls are under way at the same time."""

    concurrency = 2

    def __init__(self) -> None:
        super().__init__()
        self.barrier = threading.Barrier(2, timeout=10)

    def answer(self, q: Query) -> Forecast:
        self.barrier.wait()
        return super().answer(q)


def test_calls_run_at_the_same_time_if_the_surrogate_takes_that() -> None:
    answers = forecast_all(Meets(), [query(n) for n in range(6)], batch=1)
    assert [a.log2_speedup for a in answers] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert Manner(concurrency=5).concurrency_of(Meets()) == 5
    assert Manner(concurrency=5).concurrency_of(Recorder()) == 1


class DownAfter(Recorder):
    """Answers about the queries with a number under five, and then cannot be reached."""

    batch = 1

    def answer(self, q: Query) -> Forecast:
        if q.query_id >= "p-005":
            raise Unavailable("the endpoint is down; start it and run again")
        return super().answer(q)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_what_was_answered_before_the_end_is_kept_and_not_asked_again(tmp_path: Path, concurrency: int) -> None:
    class Down(DownAfter):
        pass

    Down.concurrency = concurrency  # type: ignore[attr-defined]
    queries = [query(n) for n in range(10)]
    with AnswerLog(tmp_path / "log", {"target": "x"}) as log, pytest.raises(Unavailable, match="down"):
        forecast_all(Down(), queries, log=log)
    recorder = Recorder()
    with AnswerLog(tmp_path / "log", {"target": "x"}) as log:
        kept = [q.query_id for q in queries if log.get(q) is not None]
        answers = forecast_all(recorder, queries, log=log)
    assert kept and set(kept) <= {f"p-{n:03d}" for n in range(5)}
    assert sorted(i for batch in recorder.batches for i in batch) == sorted({q.query_id for q in queries} - set(kept))
    assert [a.log2_speedup for a in answers] == [float(n) for n in range(10)]
