"""Correlations and recovered fractions against hand-computed values, scipy, and enumeration of random orders."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from benchmark.metrics import ranking
from benchmark.metrics.dominance import dominated
from benchmark.metrics.tally import Draws

NAN = math.nan


def _tied(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 8, n).astype(float), rng.integers(0, 12, n).astype(float)


@pytest.mark.parametrize("seed", range(5))
def test_correlations_agree_with_scipy_with_ties(seed: int) -> None:
    a, b = _tied(seed)
    assert ranking.spearman(a, b).value == pytest.approx(stats.spearmanr(a, b).statistic)
    assert ranking.kendall(a, b).value == pytest.approx(stats.kendalltau(a, b).statistic)


def test_spearman_by_hand() -> None:
    # Rank differences 0, 1, 1, 0: 1 - 6 * 2 / (4 * 15).
    assert ranking.spearman([1, 2, 3, 4], [10, 30, 20, 40]).value == pytest.approx(0.8)
    assert ranking.spearman([1, 2, 3], [3, 2, 1]).value == pytest.approx(-1.0)


@pytest.mark.parametrize("a", [[1.0, 1.0, 1.0], [0.1 + 0.2, 0.1 + 0.2, 0.1 + 0.2], [], [1.0]])
def test_a_correlation_with_a_constant_is_undefined_with_a_reason(a: list[float]) -> None:
    b = [float(i) for i in range(len(a))]
    for value in (ranking.spearman(a, b), ranking.kendall(a, b), ranking.spearman(b, a)):
        assert value.value is None
        assert value.reason == ranking.CONSTANT


def test_multiplicities_are_repeated_rows() -> None:
    a, b = _tied(9, 15)
    weight = np.random.default_rng(0).integers(0, 4, (6, 15))
    expected = [stats.spearmanr(np.repeat(a, w), np.repeat(b, w)).statistic for w in weight]
    assert ranking.spearman_resampled(a, b, Draws.of_rows(weight)) == pytest.approx(expected)


def test_pairwise_accuracy_leaves_overlapping_intervals_out() -> None:
    # Kernels 0 and 1 overlap; 0-2 and 1-2 are apart; the score orders one of the two rightly.
    low, high = [1.0, 1.1, 2.0], [1.3, 1.4, 2.2]
    assert ranking.pairwise_accuracy([0.0, 5.0, 3.0], low, high).value == 0.5
    assert ranking.pairwise_accuracy([0.0, 1.0, 3.0], low, high).value == 1.0
    assert ranking.pairwise_accuracy([3.0, 1.0, 3.0], low, high).value == 0.75
    assert ranking.pairwise_accuracy([1.0, 2.0], [1.0, 1.0], [2.0, 2.0]).value is None


@pytest.mark.parametrize("ties", [3, 9, 10_000])
def test_pairwise_accuracy_is_what_counting_all_pairs_gives(ties: int) -> None:
    rng = np.random.default_rng(ties)
    score, low = rng.integers(0, ties, 80).astype(float), np.round(rng.random(80), 2)
    high = low + rng.integers(0, 3, 80) / 10
    faster = low[:, None] > high[None, :]
    right = (score[:, None] > score[None, :]) + (score[:, None] == score[None, :]) / 2
    assert ranking.pairwise_accuracy(score, low, high).value == pytest.approx(right[faster].mean())


def test_dominated_counts_strictly_smaller_points() -> None:
    rng = np.random.default_rng(0)
    for n, m, values in ((0, 5, 3), (5, 0, 3), (1, 1, 1), (40, 33, 5), (64, 64, 1000)):
        (x, y), (u, v) = rng.integers(0, values, (2, n)), rng.integers(0, values, (2, m))
        expected = ((u[None, :] < x[:, None]) & (v[None, :] < y[:, None])).sum(axis=1)
        assert dominated(x, y, u, v).tolist() == expected.tolist()


def _mean_best_over_orders(score: list[float], values: list[float], k: int) -> float:
    rows = range(len(score))
    orders = [o for o in itertools.permutations(rows) if all(score[a] >= score[b] for a, b in itertools.pairwise(o))]
    return float(np.mean([max(values[i] for i in order[:k]) for order in orders]))


@pytest.mark.parametrize("k", range(1, 7))
@pytest.mark.parametrize("score", [[0, 0, 0, 0, 0, 0], [3, 1, 1, 1, 1, 0], [2, 2, 1, 1, 0, 0], [5, 4, 3, 2, 1, 0]])
def test_the_best_of_tied_scores_is_the_mean_over_all_orders(score: list[float], k: int) -> None:
    values = [0.0, 1.5, 0.7, 2.0, 1.5, 0.2]
    assert ranking.expected_best(score, values, k) == pytest.approx(_mean_best_over_orders(score, values, k))


def test_a_failed_kernel_spends_budget_and_finds_nothing() -> None:
    # Two successes at 2, two failures: one of four measured at random finds 2 half of the time.
    speedup = [2.0, 2.0, NAN, NAN]
    assert ranking.random_recovered_fraction(speedup, 0.25).value == pytest.approx(0.5)
    assert ranking.random_recovered_fraction(speedup, 0.5).value == pytest.approx(1 - 1 / 6)
    assert ranking.recovered_fraction([0.0, 1.0, 5.0, 4.0], speedup, 0.5).value == 0.0
    assert ranking.recovered_fraction([0.0, 1.0, 5.0, 4.0], speedup, 0.75).value == 1.0


def test_a_speedup_of_zero_is_an_error_and_a_pool_of_failures_is_undefined() -> None:
    with pytest.raises(ValueError, match=r"row 3 is 0\.0"):
        ranking.recovered_fraction([1, 2, 3, 4], [2.0, 2.0, NAN, 0.0], 0.5)
    value = ranking.recovered_fraction([1, 2], [NAN, NAN], 0.5)
    assert value.value is None
    assert value.reason


@pytest.mark.parametrize(("fraction", "n", "k"), [(0.1, 30, 3), (0.1, 31, 4), (0.01, 30, 1), (0.5, 1, 1), (0.2, 5, 1)])
def test_the_budget_is_rounded_up(fraction: float, n: int, k: int) -> None:
    assert ranking.budget(fraction, n) == k


def test_normalised_recovery_is_zero_at_random_and_one_when_perfect() -> None:
    speedup = np.random.default_rng(3).lognormal(0, 1, 60)
    for fraction in (0.01, 0.05, 0.1):
        chance = ranking.normalised_recovered_fraction(np.zeros(60), speedup, fraction)
        assert chance.value == pytest.approx(0, abs=1e-12)
        assert ranking.normalised_recovered_fraction(speedup, speedup, fraction).value == pytest.approx(1)
    assert ranking.recovered_area(np.ones(60), speedup).value == pytest.approx(0, abs=1e-12)
    assert ranking.recovered_area(speedup, speedup).value == pytest.approx(1)
    worst = ranking.recovered_area(-speedup, speedup).value
    assert worst is not None
    assert worst < 0


def test_random_orders_average_to_the_stated_expectation() -> None:
    rng = np.random.default_rng(5)
    speedup = rng.lognormal(0, 1, 50)
    found = [ranking.recovered_fraction(rng.permutation(50), speedup, 0.1).value or 0.0 for _ in range(4000)]
    expected = ranking.random_recovered_fraction(speedup, 0.1).value
    assert expected == pytest.approx(np.mean(found), abs=4 * np.std(found) / math.sqrt(len(found)))


def test_saturated_fractions_are_left_out_of_the_area() -> None:
    flat = np.linspace(0.99, 1.0, 20)
    assert ranking.normalised_recovered_fraction(flat, flat, 0.1).value is None
    area = ranking.recovered_area(flat, flat)
    assert area.value is None
    assert area.reason == "random choice recovers more than 0.95 of the best speedup"
    steep = np.array([1.0] * 10 + [3.0] * 10)  # at 20% chance already recovers more than 0.95
    assert ranking.normalised_recovered_fraction(steep, steep, 0.2).value is None
    assert ranking.recovered_area(steep, steep).value == pytest.approx(1)


def test_the_area_is_a_trapezoid_over_log_f() -> None:
    speedup = np.random.default_rng(1).lognormal(0, 1.5, 200)
    score = speedup + np.random.default_rng(2).normal(0, 3, 200)
    points = [(math.log(f), ranking.normalised_recovered_fraction(score, speedup, f).value) for f in ranking.FRACTIONS]
    known = [(x, y) for x, y in points if y is not None]
    by_hand = sum((y1 + y0) / 2 * (x1 - x0) for (x0, y0), (x1, y1) in itertools.pairwise(known))
    assert len(known) > 3
    assert ranking.recovered_area(score, speedup).value == pytest.approx(by_hand / (known[-1][0] - known[0][0]))


def test_top_k_recall_shares_ties() -> None:
    speedup = [4.0, 3.0, 2.0, 1.0]
    assert ranking.top_k_recall([4, 3, 2, 1], speedup, 2).value == 1.0
    assert ranking.top_k_recall([1, 2, 3, 4], speedup, 2).value == 0.0
    assert ranking.top_k_recall([0, 0, 0, 0], speedup, 2).value == 0.5
    assert ranking.top_k_recall([1, 2], [1.0, 2.0], 3).value is None


def test_shuffling_rows_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    score, speedup = rng.integers(0, 5, 40).astype(float), rng.lognormal(0, 1, 40)
    speedup[::7] = NAN
    shuffle = rng.permutation(40)
    for fraction in ranking.FRACTIONS:
        shuffled = ranking.recovered_fraction(score[shuffle], speedup[shuffle], fraction)
        assert ranking.recovered_fraction(score, speedup, fraction).value == pytest.approx(shuffled.value, abs=1e-14)


def test_a_missing_value_cannot_be_ordered() -> None:
    with pytest.raises(ValueError, match="row 1"):
        ranking.spearman([1.0, NAN, 2.0], [1.0, 2.0, 3.0])


def test_a_second_measurement_says_what_the_chosen_kernel_is_worth() -> None:
    # The first measurement picks kernel 0 of the pool, which is worth 1.6; kernel 1 is worth 1.8.
    first, second = [2.0, 1.9, 1.0, NAN], [1.6, 1.8, 1.1, NAN]
    assert ranking.recovered_fraction([3, 2, 1, 0], first, 0.25, second).value == pytest.approx(1.0)
    assert ranking.recovered_fraction([2, 3, 1, 0], first, 0.25, second).value == pytest.approx(1.8 / 1.6)
    assert ranking.recovered_fraction([1, 2, 3, 4], first, 0.5, second).value == pytest.approx(1.1 / 1.6)
    assert ranking.recovered_fraction([1, 2, 3, 4], first, 0.25, second).value == 0.0
    assert ranking.recovered_fraction([1, 2, 3, 4], first, 1.0, second).value == pytest.approx(1.0)
    assert ranking.random_recovered_fraction(first, 0.25, second).value == pytest.approx(
        (1.6 + 1.8 + 1.1 + 0) / 4 / 1.6
    )
    tied = [_mean_worth_over_orders([1, 1, 1, 0], [2.0, 1.9, 1.0, 0.0], [1.6, 1.8, 1.1, 0.0], k) for k in (1, 2, 3)]
    found = [ranking.recovered_fraction([1, 1, 1, 0], first, k / 4, second).value for k in (1, 2, 3)]
    assert found == pytest.approx([t / 1.6 for t in tied])


def _mean_worth_over_orders(score: list[float], values: list[float], worth: list[float], k: int) -> float:
    rows = range(len(score))
    orders = [o for o in itertools.permutations(rows) if all(score[a] >= score[b] for a, b in itertools.pairwise(o))]
    return float(np.mean([worth[max(order[:k], key=lambda i: values[i])] for order in orders]))
