"""Best-so-far curves of searches: failures spend budget, censored runs count it whole."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmark.metrics import best_so_far as b

NAN = math.nan


def test_a_curve_by_hand() -> None:
    assert b.best_so_far([NAN, 1.0, 0.5, 2.0]).tolist() == [0, 1, 1, 2]
    assert b.best_so_far([1.0, 2.0], budget=4).tolist() == [1, 2, 2, 2]
    assert b.best_so_far([], budget=2).tolist() == [0, 0]


def test_measurements_to_the_target_and_censoring() -> None:
    assert b.measurements_to([1.0, NAN, 1.9, 2.0], 2.0, 10) == b.Reached(3, False)  # 1.9 is 95% of 2
    assert b.measurements_to([1.0, 1.8], 2.0, 10) == b.Reached(10, True)
    assert b.measurements_to([2.0], 2.0, 10, share=1.0) == b.Reached(1, False)


def test_the_restricted_mean_says_how_many_are_censored() -> None:
    value = b.restricted_mean([b.Reached(2, False), b.Reached(10, True)])
    assert value.value == 6
    assert value.reason == "1 of 2 runs did not get there within their budget"
    assert b.restricted_mean([b.Reached(2, False)]).reason is None
    assert b.restricted_mean([]).reason == "no run"


def test_the_area_is_the_mean_of_the_curve() -> None:
    assert b.area_under_best([1.0, 2.0], 2.0, 4) == pytest.approx((0.5 + 1 + 1 + 1) / 4)
    assert b.area_under_best([2.0], 2.0, 4) == 1.0
    assert b.area_under_best([], 2.0, 4) == 0.0
    rng = np.random.default_rng(0)
    speedup = rng.lognormal(size=30)
    in_order = b.area_under_best(np.sort(speedup)[::-1], speedup.max(), 30)
    assert b.area_under_best(speedup, speedup.max(), 30) < in_order == 1.0


def test_wins_ties_and_losses() -> None:
    assert b.win_tie_loss([1, 2, 3, 4], [0, 2, 3.05, 5], tolerance=0.1) == (1, 2, 1)
    assert b.win_tie_loss([], []) == (0, 0, 0)
    with pytest.raises(ValueError, match="expected pairs"):
        b.win_tie_loss([1], [1, 2])


def test_bad_runs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"measurement 2 has speedup 0\.0"):
        b.best_so_far([1.0, 0.0])
    with pytest.raises(ValueError, match="3 measurements in a budget of 2"):
        b.best_so_far([1.0, 1.0, 1.0], budget=2)
    for best in (0.0, NAN):
        with pytest.raises(ValueError, match="best speedup on record"):
            b.measurements_to([1.0], best, 5)
        with pytest.raises(ValueError, match="best speedup on record"):
            b.area_under_best([1.0], best, 5)
