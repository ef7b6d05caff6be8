"""The cluster bootstrap: its draws, its intervals, and the tests built on it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmark.metrics import bootstrap
from benchmark.metrics.value import Value


def test_every_draw_has_as_many_tasks_and_searches_as_the_sample() -> None:
    plan = bootstrap.draw([1, 3, 5], 500, seed=0)
    assert plan.tasks.shape == (500, 3)
    assert [m.shape[1] for m in plan.multiplicities] == [1, 3, 5]
    assert all((m.sum(axis=1) == count).all() for m, count in zip(plan.multiplicities, [1, 3, 5], strict=True))
    assert len(plan.multiplicities[1]) <= 10  # multisets of 3 out of 3
    for task, m in enumerate(plan.multiplicities):
        assert plan.members[plan.tasks == task].max() < len(m)


def test_draws_depend_on_the_seed_alone() -> None:
    first, again, other = (bootstrap.draw([2, 4], 50, seed) for seed in (1, 1, 2))
    assert (first.tasks == again.tasks).all()
    assert (first.members == again.members).all()
    assert not (first.tasks == other.tasks).all()


def test_means_agree_with_a_loop_over_resamples() -> None:
    rng = np.random.default_rng(0)
    plan = bootstrap.draw([2, 3, 4], 200, seed=3)
    values = [rng.normal(size=len(m)) for m in plan.multiplicities]
    values[1][0] = np.nan
    by_hand = [
        np.nanmean([values[t][m] for t, m in zip(tasks, members, strict=True)])
        if not all(np.isnan(values[t][m]) for t, m in zip(tasks, members, strict=True))
        else np.nan
        for tasks, members in zip(plan.tasks, plan.members, strict=True)
    ]
    assert bootstrap.mean_over_tasks(values, plan) == pytest.approx(by_hand, nan_ok=True)


def test_the_spread_of_a_mean_is_that_of_two_stage_sampling() -> None:
    # Var over resamples of a macro mean = between-task variance / T + mean within-task variance of a mean / T.
    rng = np.random.default_rng(0)
    searches = rng.normal(size=(8, 5)) + rng.normal(size=(8, 1))
    plan = bootstrap.draw([5] * 8, 20_000, seed=0)
    values = [m @ row / 5 for m, row in zip(plan.multiplicities, searches, strict=True)]
    expected = searches.mean(axis=1).var() / 8 + (searches.var(axis=1) / 5).mean() / 8
    assert bootstrap.mean_over_tasks(values, plan).var() == pytest.approx(expected, rel=0.05)


def test_a_task_without_a_search_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one search"):
        bootstrap.draw([2, 0], 10, 0)


def test_the_percentile_interval() -> None:
    assert bootstrap.percentile_interval(np.arange(1001.0)) == pytest.approx((25, 975))
    assert bootstrap.percentile_interval(np.array([np.nan, np.nan, 1.0])) is None
    assert bootstrap.percentile_interval(np.zeros(0)) is None


def test_the_paired_p_value() -> None:
    assert bootstrap.paired_p_value(np.zeros(999), 20) == 1.0
    assert bootstrap.paired_p_value(np.ones(999), 20) == pytest.approx(2 / 1000)
    assert bootstrap.paired_p_value(-np.ones(999), 20) == pytest.approx(2 / 1000)
    assert bootstrap.paired_p_value(np.array([-1.0, 1.0] * 500), 20) == 1.0


def test_few_clusters_cannot_be_significant() -> None:
    assert bootstrap.paired_p_value(np.ones(9999), 4) == 0.125
    assert bootstrap.paired_p_value(np.ones(9999), 1) == 1.0


def test_holm_steps_down_and_stops() -> None:
    assert bootstrap.holm([0.04, 0.01, 0.03]) == [False, True, False]
    assert bootstrap.holm([0.01, 0.02, 0.04]) == [True, True, True]
    assert bootstrap.holm([]) == []


@pytest.mark.parametrize("fields", [
    {"value": math.nan}, {"value": math.inf}, {"value": None}, {"value": 1.0, "low": 0.5},
    {"value": 1.0, "low": 0.5, "high": math.nan},
])  # fmt: skip
def test_a_value_is_finite_or_has_a_reason(fields: dict[str, float | None]) -> None:
    with pytest.raises(ValueError, match=r"undefined|interval"):
        Value(**fields)  # type: ignore[arg-type]


def test_an_interval_of_counted_values_is_that_of_the_values_drawn_out() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 40):
        values, counts = rng.normal(size=(size, 5)), rng.integers(0, 9, size)
        values[rng.random((size, 5)) < 0.2] = np.nan
        found = bootstrap.interval_of_counts(values, counts)
        for column in range(5):
            expected = bootstrap.percentile_interval(np.repeat(values[:, column], counts))
            if expected is None:
                assert np.isnan(found[:, column]).all()
            else:
                assert found[:, column] == pytest.approx(expected)
