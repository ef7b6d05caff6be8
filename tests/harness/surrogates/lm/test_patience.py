"""Waiting, asking again and giving up, on a clock that the test turns."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.surrogates.foreign import Unavailable
from harness.surrogates.lm.endpoint import EndpointError, Failed, Misshapen, Throttled, retry_after
from harness.surrogates.lm.patience import Patience


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def script(*outcomes: Exception | str) -> Callable[[], str]:
    left = list(outcomes)

    def request() -> str:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return request


def patience(clock: Clock, **options: float) -> Patience:
    return Patience(sleep=clock.sleep, clock=clock, **options)  # type: ignore[arg-type]


def test_the_wait_that_the_endpoint_names_is_kept() -> None:
    clock = Clock()
    mine = patience(clock)
    assert mine.ask(script(Throttled("slow down", 7.0), "yes")) == "yes"
    assert (clock.slept, mine.throttled, mine.retried) == ([7.0], 1, 0)


def test_without_a_named_wait_it_doubles() -> None:
    clock = Clock()
    assert patience(clock).ask(script(*[Throttled("slow down", None)] * 3, "yes")) == "yes"
    assert clock.slept == [1.0, 2.0, 4.0]


def test_an_endpoint_that_names_no_time_at_all_is_not_asked_without_end() -> None:
    clock = Clock()
    with pytest.raises(Unavailable):
        patience(clock, patience_s=10).ask(script(*[Throttled("slow down", 0.0)] * 100))
    assert sum(clock.slept) == pytest.approx(10, abs=0.3)


def test_throttling_beyond_the_patience_ends_the_run() -> None:
    clock = Clock()
    with pytest.raises(Unavailable, match=r"slow down; it asks to wait for 999 s more, beyond patience_s=300"):
        patience(clock).ask(script(Throttled("slow down", 999.0)))
    assert clock.slept == []


def test_a_failure_is_asked_again_and_counted() -> None:
    clock = Clock()
    mine = patience(clock)
    assert mine.ask(script(Failed("down", reached=True), Failed("down", reached=True, wait_s=5.0), "yes")) == "yes"
    assert (clock.slept, mine.retried) == ([1.0, 5.0], 2)


def test_an_endpoint_that_is_not_there_ends_the_run_and_one_that_fails_costs_the_query() -> None:
    mine = patience(Clock(), retries=1)
    with pytest.raises(Unavailable, match="the same command continues"):
        mine.ask(script(*[Failed("refused", reached=False)] * 2))
    mine = patience(Clock(), retries=1)
    with pytest.raises(Failed):
        mine.ask(script(*[Failed("500", reached=True)] * 2))


def test_three_lost_queries_in_a_row_end_the_run_and_an_answer_starts_anew() -> None:
    mine = patience(Clock(), retries=0)
    lost: list[EndpointError] = [Failed("500", reached=True), Misshapen("no completion")]
    for _ in range(3):
        for error in lost:
            with pytest.raises(type(error)):
                mine.ask(script(error))
        assert mine.ask(script("yes")) == "yes"
    for error in lost:
        with pytest.raises(type(error)):
            mine.ask(script(error))
    with pytest.raises(Unavailable):
        mine.ask(script(Misshapen("no completion")))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "-4"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after(headers) == expected
