"""Asking a surrogate: every query gets an answer or the status `error`, whatever the surrogate does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from benchmark.bins import N_BINS
from benchmark.forecasts import LOG2_LIMIT, STATUSES, SUM_TOLERANCE
from benchmark.query import Forecast, Query, Surrogate

BATCH = 64
ERROR = Forecast(probabilities=None, status="error")

Report = Callable[[str, str], None]  # query_id, what went wrong
Progress = Callable[[int], None]  # queries answered since the last call


def forecast_all(
    surrogate: Surrogate,
    queries: Sequence[Query],
    batch: int | None = None,
    progress: Progress | None = None,
    report: Report | None = None,
) -> list[Forecast]:
    """Return one forecast for each query, in the order given.

    The surrogate sees the queries sorted by query_id, `batch` at a time; one that declares `transductive` sees all of
    them at once. A batch that raises or returns the wrong number of rows is asked again in halves, down to the query
    that causes it; that query, or one with an invalid answer, gets the status `error` and `report` is told why.
    """
    size = len(queries) if getattr(surrogate, "transductive", False) else batch or BATCH
    order = sorted(range(len(queries)), key=lambda i: queries[i].query_id)
    answers: list[Forecast] = [ERROR] * len(queries)
    for start in range(0, len(order), max(size, 1)):
        part = order[start : start + size]
        # A tuple: a surrogate that pops its queries would otherwise change what its answers are counted against.
        for i, answer in zip(part, _ask(surrogate, tuple(queries[i] for i in part), report), strict=True):
            answers[i] = answer
        if progress:
            progress(len(part))
    return _all_or_none_ranked(queries, answers, report)


def _all_or_none_ranked(queries: Sequence[Query], answers: list[Forecast], report: Report | None) -> list[Forecast]:
    """A rank score has no unit: on a track where some forecasts have one, a forecast without one has no place."""
    ranked = {q.track for q, a in zip(queries, answers, strict=True) if a.status == "ok" and a.rank_score is not None}
    kept = []
    for query, answer in zip(queries, answers, strict=True):
        lacks = answer.status == "ok" and answer.rank_score is None and query.track in ranked
        if lacks and report:
            report(query.query_id, "no rank_score, which other forecasts have; give one to all or to none")
        kept.append(ERROR if lacks else answer)
    return kept


def _ask(surrogate: Surrogate, queries: tuple[Query, ...], report: Report | None) -> list[Forecast]:
    try:
        answers = list(surrogate.forecast(queries))
        if len(answers) != len(queries):
            raise ValueError(f"returned {len(answers)} forecasts for {len(queries)} queries")
    except KeyboardInterrupt:
        raise
    # A surrogate is foreign code: calling sys.exit on one query must not cost the answers to the others.
    except BaseException as error:
        if len(queries) > 1:
            half = len(queries) // 2
            return _ask(surrogate, queries[:half], report) + _ask(surrogate, queries[half:], report)
        if report:
            report(queries[0].query_id, f"{type(error).__name__}: {error}".rstrip(": "))
        return [ERROR]
    return [_checked(query, answer, report) for query, answer in zip(queries, answers, strict=True)]


def _checked(query: Query, answer: Any, report: Report | None) -> Forecast:
    try:
        problem = invalid(answer)
    except Exception as error:  # its fields may be anything: an array for a status, an integer that no float can hold
        problem = f"its fields cannot be read: {type(error).__name__}: {error}"
    if problem is None:
        assert isinstance(answer, Forecast)
        return answer
    if report:
        report(query.query_id, problem)
    return ERROR


def invalid(answer: Any) -> str | None:
    """Return what is wrong with a forecast, or None if it can be scored."""
    if not isinstance(answer, Forecast):
        return f"returned {type(answer).__name__}, expected benchmark.Forecast"
    if answer.status not in STATUSES:
        return f"status {answer.status!r}, expected one of {', '.join(STATUSES)}"
    for name in ("log2_speedup", "rank_score", "p_fail", "seconds"):
        value = getattr(answer, name)
        if value is not None and not _finite(value):
            return f"{name} is {value!r}, expected a finite number or None"
    if answer.log2_speedup is not None and abs(answer.log2_speedup) > LOG2_LIMIT:
        return f"log2_speedup is {answer.log2_speedup!r}, expected a number in [-{LOG2_LIMIT}, {LOG2_LIMIT}]"
    if answer.p_fail is not None and not 0 <= answer.p_fail <= 1:
        return f"p_fail is {answer.p_fail!r}, expected a probability"
    for name in ("seconds", "input_tokens", "output_tokens"):
        value = getattr(answer, name)
        if value is not None and not (_finite(value) and value >= 0):
            return f"{name} is {value!r}, expected a number that is not negative, or None"
    if answer.status != "ok":
        return None if answer.probabilities is None else f"probabilities given with status '{answer.status}'"
    return _invalid_probabilities(answer.probabilities)


def _invalid_probabilities(given: Any) -> str | None:
    if given is None or not hasattr(given, "__len__") or len(given) != N_BINS:
        found = "no" if given is None else len(given) if hasattr(given, "__len__") else type(given).__name__
        return f"{found} probabilities, expected {N_BINS}"
    if not all(_finite(p) and p >= 0 for p in given):
        return f"probabilities {list(given)!r} are not all finite numbers of at least 0"
    total = math.fsum(given)
    if abs(total - 1) > SUM_TOLERANCE:
        return f"probabilities sum to {total:.6g}, expected 1 within {SUM_TOLERANCE}"
    return None


def _finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)
