"""Asking a surrogate: every query gets an answer or the status `error`, whatever the surrogate does."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from benchmark.query import Forecast, Query, Surrogate
from harness.surrogates.answer_log import AnswerLog
from harness.surrogates.foreign import Unavailable
from harness.surrogates.validity import invalid

BATCH = 64
MOST_HANGS = 3  # so many queries in a row without an answer in time, and the others are not asked
ERROR = Forecast(probabilities=None, status="error")

Report = Callable[[str, str], None]  # query_id, what went wrong
Progress = Callable[[int], None]  # queries answered since the last call
Part = tuple[Query, ...]


class Hung(RuntimeError):
    """A call took longer than its limit."""


@dataclass(frozen=True)
class Manner:
    """How to ask: queries for one call, calls at the same time, and the longest that one call may take, in seconds.

    None stands for what the surrogate declares (`batch`, `concurrency`), else 64 queries and one call; None for
    `timeout_s` is no limit. A call that hangs cannot be ended, only left behind: its thread stays until the process
    ends.
    """

    batch: int | None = None
    concurrency: int | None = None
    timeout_s: float | None = None

    def batch_of(self, surrogate: Surrogate, n_queries: int) -> int:
        """Return how many queries one call gets: all, for a surrogate that declares `transductive`."""
        if getattr(surrogate, "transductive", False):
            return max(n_queries, 1)
        return self.batch or int(getattr(surrogate, "batch", BATCH))

    def concurrency_of(self, surrogate: Surrogate) -> int:
        """Return how many calls may run at once: one, unless the surrogate declares that it takes several."""
        declared = int(getattr(surrogate, "concurrency", 1))
        return declared if declared == 1 or self.concurrency is None else self.concurrency


def forecast_all(
    surrogate: Surrogate,
    queries: Sequence[Query],
    batch: int | None = None,
    progress: Progress | None = None,
    report: Report | None = None,
    manner: Manner | None = None,
    log: AnswerLog | None = None,
) -> list[Forecast]:
    """Return one forecast for each query, in the order given; each says how many `seconds` it took.

    The surrogate sees the queries sorted by query_id, in batches. A batch that raises or returns the wrong number of
    rows is asked again in halves, and one that takes too long query by query, down to the query that causes it; that
    query, or one with an invalid answer, gets the status `error` and `report` is told why. With a log, queries that it
    holds are not asked again, and every batch is kept as soon as it is answered. Raises Unavailable if the surrogate
    does: then no further query is asked.
    """
    manner = manner or Manner(batch)
    near = getattr(surrogate, "order_key", lambda query: "")
    order = sorted(range(len(queries)), key=lambda i: (near(queries[i]), queries[i].query_id))
    answers: list[Forecast] = [ERROR] * len(queries)
    kept = {i: answer for i in order if log is not None and (answer := log.get(queries[i])) is not None}
    for i, answer in kept.items():
        answers[i] = answer
    if progress and kept:
        progress(len(kept))
    asked = [i for i in order if i not in kept]
    size = manner.batch_of(surrogate, len(asked))
    parts = [asked[start : start + size] for start in range(0, len(asked), size)]
    asking = Asking(surrogate, manner.timeout_s, report)
    # A tuple: a surrogate that pops its queries would otherwise change what its answers are counted against.
    calls = [tuple(queries[i] for i in part) for part in parts]
    for number, answered in _at_once(asking.ask, calls, manner.concurrency_of(surrogate)):
        if log is not None:
            log.put_all(zip(calls[number], answered, strict=True))
        for i, answer in zip(parts[number], answered, strict=True):
            answers[i] = answer
        if progress:
            progress(len(answered))
    return _all_or_none_ranked(queries, answers, report)


def _at_once(
    ask: Callable[[Part], list[Forecast]], calls: Sequence[Part], n_threads: int
) -> Iterator[tuple[int, list[Forecast]]]:
    """Yield (number of the call, its answers) as they come, with several calls at the same time.

    The threads do not keep the process alive: an interrupt ends it, although a call hangs.
    """
    if n_threads == 1:
        yield from ((number, ask(part)) for number, part in enumerate(calls))
        return
    waiting = deque(enumerate(calls))
    done: SimpleQueue[tuple[int, list[Forecast] | BaseException]] = SimpleQueue()

    def work() -> None:
        while waiting:
            try:
                number, part = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                done.put((number, ask(part)))
            except BaseException as error:
                waiting.clear()
                done.put((number, error))

    for _ in range(min(n_threads, len(calls))):
        Thread(target=work, daemon=True).start()
    for _ in calls:
        number, outcome = done.get()
        if isinstance(outcome, BaseException):
            raise outcome
        yield number, outcome


class Asking:
    """One run of questions to a surrogate; it counts the queries in a row that hung."""

    def __init__(self, surrogate: Surrogate, timeout_s: float | None, report: Report | None) -> None:
        self._surrogate, self._timeout_s, self._report = surrogate, timeout_s, report
        self._hangs = 0
        self._lock = Lock()

    def ask(self, queries: Part) -> list[Forecast]:
        """Return one forecast for each query. Raises Unavailable and KeyboardInterrupt, nothing else."""
        if self._hangs >= MOST_HANGS:
            problem = f"not asked, because {MOST_HANGS} queries in a row got no answer in {self._timeout_s:g} s"
            return [self._failed(query, problem) for query in queries]
        start = time.monotonic()
        try:
            answers = _listed(_call(self._surrogate, queries, self._timeout_s))
            if len(answers) != len(queries):
                raise ValueError(f"returned {len(answers)} forecasts for {len(queries)} queries")
        except (KeyboardInterrupt, Unavailable):
            raise
        except Hung as error:
            if len(queries) > 1:
                return [answer for query in queries for answer in self.ask((query,))]
            self._count_hang(True)
            return [self._failed(queries[0], str(error))]
        # A surrogate is foreign code: calling sys.exit on one query must not cost the answers to the others.
        except BaseException as error:
            self._count_hang(False)
            if len(queries) > 1:
                half = len(queries) // 2
                return self.ask(queries[:half]) + self.ask(queries[half:])
            return [self._failed(queries[0], f"{type(error).__name__}: {error}".rstrip(": "))]
        self._count_hang(False)
        seconds = (time.monotonic() - start) / len(queries)
        return [self._checked(query, answer, seconds) for query, answer in zip(queries, answers, strict=True)]

    def _count_hang(self, hung: bool) -> None:
        with self._lock:
            self._hangs = self._hangs + 1 if hung else 0

    def _failed(self, query: Query, problem: str) -> Forecast:
        if self._report:
            self._report(query.query_id, " ".join(problem.split()))  # what foreign code raises may span lines
        return ERROR

    def _checked(self, query: Query, answer: Any, seconds: float) -> Forecast:
        try:
            problem = invalid(answer)
        except Exception as error:  # its fields may be anything: an array for a status, an integer beyond any float
            problem = f"its fields cannot be read: {type(error).__name__}: {error}"
        if problem is not None:
            return self._failed(query, problem)
        assert isinstance(answer, Forecast)
        if answer.status == "error":
            raw = getattr(answer, "raw", None)
            return self._failed(
                query, raw if isinstance(raw, str) else "the surrogate answered with the status 'error'"
            )
        return answer if answer.seconds is not None else replace(answer, seconds=seconds)


def _call(surrogate: Surrogate, queries: Part, timeout_s: float | None) -> Sequence[Forecast]:
    """Return what the surrogate answers. Raises Hung after `timeout_s`, and whatever the surrogate raises."""
    if not timeout_s:
        return surrogate.forecast(queries)
    outcome: list[tuple[Any, BaseException | None]] = []

    def work() -> None:
        try:
            outcome.append((surrogate.forecast(queries), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not outcome:
        raise Hung(f"no answer in {timeout_s:g} s")
    answers, error = outcome[0]
    if error is not None:
        raise error
    return answers


def _listed(answers: Any) -> list[Any]:
    """Return the answers as a list. Raises TypeError that says what was returned instead of something to go through."""
    if not isinstance(answers, Iterable):
        raise TypeError(f"forecast() returned {type(answers).__name__}, expected a list with a Forecast for each query")
    return list(answers)


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
