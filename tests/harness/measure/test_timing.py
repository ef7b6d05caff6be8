"""Which of two clocks of a call counts; the rest of the timing needs a GPU."""

from __future__ import annotations

from harness.measure.timing import honest


def test_the_events_of_a_call_count_where_nothing_passes_around_them():
    times = [(40_000.0 + i, 49_000.0 + i) for i in range(16)]
    assert honest(times, around_ns=9_000.0, noise_ns=2_000.0) == [inside for inside, _ in times]


def test_a_slow_launch_now_and_then_is_no_reason_to_distrust_them():
    times = [(40_000.0, 49_000.0 + 50_000.0 * (i % 3 == 0)) for i in range(16)]
    assert honest(times, around_ns=9_000.0, noise_ns=2_000.0) == [40_000.0] * 16


def test_work_outside_its_events_is_counted():
    times = [(30_000.0, 49_000.0) for _ in range(16)]
    assert honest(times, around_ns=9_000.0, noise_ns=2_000.0) == [40_000.0] * 16
