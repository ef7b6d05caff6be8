from __future__ import annotations

import numpy as np
import pytest

from benchmark.speedup import (
    LAUNCH_BOUND,
    Z95,
    Noise,
    estimate_noise,
    geomean_us,
    is_launch_bound,
    kernel_speedup,
    log2_median,
    pair_speedup,
)

SILENT = Noise({}, 0.0, 0)


def test_the_median_and_its_error_by_hand():
    # log2 of 2, 4, 8: median 2, median absolute deviation 1, so sd 1.4826 and error 1.2533 * 1.4826 / sqrt(3).
    middle, error = log2_median([2.0, 4.0, 8.0])
    assert middle == 2.0
    assert error == pytest.approx(1.2533141373 * 1.4826022185 / 3**0.5)


def test_zero_negative_and_nan_samples_do_not_count():
    assert log2_median([4.0, 0.0, -1.0, float("nan"), 4.0]) == (2.0, 0.0)
    with pytest.raises(ValueError, match="no positive"):
        log2_median([0.0, float("nan")])


def test_samples_on_one_tick_are_not_exact():
    _, error = log2_median([1000.0] * 9 + [1001.0])
    assert error > 0


def test_the_geometric_mean_over_cases_is_in_microseconds():
    assert geomean_us({"a": [[2000.0]], "b": [[8000.0]]}) == pytest.approx(4.0)


def test_the_speedup_is_the_geometric_mean_of_the_cases():
    cases = [("a", [[10.0] * 5], [[20.0] * 5]), ("b", [[10.0] * 5], [[80.0] * 5])]
    interval = kernel_speedup(cases, SILENT, "t")
    assert interval.speedup == pytest.approx(4.0)
    assert (interval.low, interval.high) == pytest.approx((4.0, 4.0))


def test_a_pair_uses_the_cases_that_both_have_and_the_noise_of_both_sides():
    parent = {"a": [[40.0] * 4], "b": [[99.0] * 4]}
    child = {"a": [[10.0] * 4], "c": [[1.0] * 4]}
    interval = pair_speedup(parent, child, Noise({"t": 0.1}, 0.0, 20), "t")
    assert interval.speedup == pytest.approx(4.0)
    assert interval.high == pytest.approx(4.0 * 2 ** (Z95 * 0.1 * 2**0.5))
    with pytest.raises(ValueError, match="no timing case"):
        pair_speedup({"a": [[1.0]]}, {"b": [[1.0]]}, SILENT, "t")


@pytest.mark.parametrize(
    "candidate, reference, empty, expected",
    [
        ([4_100.0] * 5, [5_200.0] * 5, 4_000.0, True),
        ([4_100.0] * 5, [40_000.0] * 5, 4_000.0, False),  # a gain down to the launch is one
        ([40_000.0] * 5, [4_100.0] * 5, 4_000.0, False),
        ([4_100.0, 4_100.0, 90_000.0], [5_200.0] * 3, 4_000.0, True),  # medians: one late call does not decide
        ([LAUNCH_BOUND * 4_000.0] * 3, [4_100.0] * 3, 4_000.0, False),
        ([4_100.0] * 5, [5_200.0] * 5, None, False),
    ],
)
def test_a_case_whose_two_sides_are_about_an_empty_kernel_is_launch_bound(candidate, reference, empty, expected):
    assert is_launch_bound(candidate, reference, empty) is expected


def test_more_processes_narrow_the_interval():
    noise = Noise({"t": 0.1}, 0.0, 20)
    one = kernel_speedup([("a", [[1.0] * 3], [[2.0] * 3])], noise, "t")
    four = kernel_speedup([("a", [[1.0] * 3] * 4, [[2.0] * 3] * 4)], noise, "t")
    assert np.log2(one.high / one.speedup) == pytest.approx(2 * np.log2(four.high / four.speedup))


def test_the_noise_between_processes_is_recovered():
    rng = np.random.default_rng(7)
    between, within, rows = 0.02, 0.03, []
    for kernel in range(400):
        levels = 10 + rng.normal(0, between, 3)
        for case in ("a", "b"):
            samples = {f"p{i}": 2 ** rng.normal(level, within, 25) for i, level in enumerate(levels)}
            rows.append((f"k{kernel}", "t", case, samples))
    noise = estimate_noise(rows)
    assert noise.degrees_of_freedom == 800
    assert noise.between_log2_sd("t") == pytest.approx(between, rel=0.1)
    assert noise.between_log2_sd("another task") == noise.pooled


def test_intervals_cover_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(1)
    between, within, hits, trials = 0.01, 0.02, 0, 1500
    noise = Noise({"t": between}, between, 99)
    for _ in range(trials):
        parent = [2 ** (5 + rng.normal(0, between) + rng.normal(0, within, 30))]
        child = [2 ** (4 + rng.normal(0, between) + rng.normal(0, within, 30))]
        interval = pair_speedup({"a": parent}, {"a": child}, noise, "t")
        hits += interval.low <= 2.0 <= interval.high
    assert 0.93 <= hits / trials <= 0.97


def test_without_repeats_nothing_is_known_of_the_noise():
    assert estimate_noise([("k", "t", "a", {"p": [1.0, 2.0]})]) == Noise({}, 0.0, 0)
