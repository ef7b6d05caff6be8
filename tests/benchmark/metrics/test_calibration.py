"""Calibration metrics: hand-computed constants, identities, and agreement with other libraries."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scoringrules
from sklearn.metrics import log_loss as sklearn_log_loss

from benchmark.bins import bin_mass
from benchmark.metrics import calibration as c
from benchmark.metrics.tally import Draws

UNIFORM = np.full((1, 8), 1 / 8)
SURE = np.eye(8)


def _random(n: int, seed: int = 0, sharp: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(8, sharp), n)


def test_constants_of_the_uniform_forecast() -> None:
    assert c.half_brier(UNIFORM, SURE[[3]])[0] == pytest.approx(7 / 16)
    assert c.log_loss(UNIFORM, SURE[[3]])[0] == pytest.approx(math.log(8))
    # Bin 1: sum over k of ((8 - k)/8)^2 = 140/64, over 7.
    assert c.ranked_probability_score(UNIFORM, SURE[[0]])[0] == pytest.approx(140 / 64 / 7)
    assert c.entropy(UNIFORM)[0] == pytest.approx(math.log(8))


def test_scores_span_their_range() -> None:
    assert c.half_brier(SURE[[0]], SURE[[0]])[0] == 0.0
    assert c.half_brier(SURE[[0]], SURE[[1]])[0] == 1.0
    assert c.ranked_probability_score(SURE[[0]], SURE[[7]])[0] == 1.0
    assert c.ranked_probability_score(SURE[[0]], SURE[[1]])[0] == pytest.approx(1 / 7)
    assert c.log_loss(SURE[[0]], SURE[[0]])[0] == 0.0
    assert c.log_loss(SURE[[0]], SURE[[1]])[0] == pytest.approx(-math.log(c.LOG_FLOOR))
    assert c.entropy(SURE)[0] == 0.0


def test_hard_scores_agree_with_other_libraries() -> None:
    p, bins = _random(30), np.random.default_rng(1).integers(1, 9, 30)
    hard = c.one_hot(bins)
    assert c.half_brier(p, hard) == pytest.approx(scoringrules.brier_score(hard, p).reshape(30, 8).sum(axis=1) / 2)
    rps = [scoringrules.rps_score(int(b), row) for b, row in zip(bins, p, strict=True)]
    assert c.ranked_probability_score(p, hard) == pytest.approx(np.array(rps) / 7)
    assert c.log_loss(p, hard, floor=1e-15).mean() == pytest.approx(sklearn_log_loss(bins, p, labels=range(1, 9)))


@pytest.mark.parametrize("score", [c.half_brier, c.ranked_probability_score])
def test_a_soft_label_gives_the_expectation_over_its_bins(score: object) -> None:
    p, q = _random(10, 1), _random(10, 2)
    assert callable(score)
    by_bin = np.stack([score(p, np.tile(SURE[b], (10, 1))) for b in range(8)], axis=1)
    assert score(p, q) == pytest.approx((q * by_bin).sum(axis=1))


@pytest.mark.parametrize("score", [c.half_brier, c.ranked_probability_score])
def test_the_label_itself_is_the_best_forecast(score: object) -> None:
    p, q = _random(200, 3), _random(200, 4)
    assert callable(score)
    assert (score(p, q) >= score(q, q) - 1e-12).all()
    assert score(p, q) - score(q, q) == pytest.approx(
        ((p - q) ** 2).sum(axis=1) / 2
        if score is c.half_brier
        else ((np.cumsum(p, axis=1) - np.cumsum(q, axis=1)) ** 2).sum(axis=1) / 7
    )


def test_no_forecast_beats_the_least_log_loss() -> None:
    labels = np.concatenate([_random(50, 5), _random(50, 6, sharp=0.05), SURE, bin_mass([0.0, 0.01], [0.01, 0.02])])
    least = c.least_log_loss(labels)
    assert (least >= 0).all()
    assert (least <= c.entropy(labels) + 1e-12).all()
    assert least[:50] == pytest.approx(c.entropy(labels[:50]), abs=1e-3)
    for seed in range(20):
        assert (c.log_loss(_random(len(labels), seed, sharp=0.3), labels) >= least - 1e-12).all()
    assert (c.log_loss(labels, labels) >= least - 1e-12).all()


def test_a_speedup_on_an_edge_is_not_a_coin_flip() -> None:
    just_below, just_above = bin_mass([-0.001], [0.02]), bin_mass([0.001], [0.02])
    forecast = np.array([[0, 0, 0, 0.5, 0.5, 0, 0, 0]])
    for score in (c.half_brier, c.ranked_probability_score, c.log_loss):
        assert score(forecast, just_below) == pytest.approx(score(forecast, just_above), abs=0.02)


def test_a_single_precision_zero_costs_a_finite_amount() -> None:
    forecast = np.array([[0, 1, 0, 0, 0, 0, 0, 0]], dtype=np.float32)
    assert c.log_loss(forecast, SURE[[1]])[0] == 0.0
    assert c.log_loss(forecast, SURE[[0]])[0] == pytest.approx(-math.log(1e-4))
    nearly = np.array([[1e-15, 1 - 1e-15, 0, 0, 0, 0, 0, 0]], dtype=np.float32)
    assert np.isfinite(c.log_loss(nearly, SURE[[0]])).all()


def test_probabilities_that_do_not_sum_to_one_are_refused_not_improved() -> None:
    for score in (c.half_brier, c.ranked_probability_score, c.log_loss):
        with pytest.raises(ValueError, match=r"forecast, row 0.*its sum is 0\.5"):
            score([[0.2, 0.3, 0, 0, 0, 0, 0, 0]], SURE[[1]])
        with pytest.raises(ValueError, match="forecast, row 1"):
            score([SURE[0], [math.nan] * 8], SURE[:2])
        with pytest.raises(ValueError, match="forecast, row 0"):
            score([[1.5, -0.5, 0, 0, 0, 0, 0, 0]], SURE[[1]])


def test_the_floor_may_decide_an_order_so_it_is_in_the_version_and_bounded_scores_do_not_depend_on_it() -> None:
    labels = SURE[[0] * 100]
    one_miss = np.concatenate([np.tile([0.9, 0.1, 0, 0, 0, 0, 0, 0], (99, 1)), SURE[[1]]])
    flat = np.tile([0.85, 0.15, 0, 0, 0, 0, 0, 0], (100, 1))

    def better(floor: float) -> bool:
        return bool(c.log_loss(one_miss, labels, floor).mean() < c.log_loss(flat, labels, floor).mean())

    assert better(1e-2) != better(1e-15)
    assert c.LOG_LOSS_VERSION == "log_loss-floor-0.0001"
    assert c.half_brier(one_miss, labels).mean() < c.half_brier(flat, labels).mean()


def test_confidence_one_is_in_the_last_bin() -> None:
    assert c.expected_calibration_error([0.95, 1.0], [1, 0]).value == pytest.approx(0.475)
    assert c.equal_width_bin([0.0, 0.1, 0.3, 0.95, 1.0]).tolist() == [0, 1, 3, 9, 9]


def test_confidence_zero_counts() -> None:
    assert c.expected_calibration_error([0, 0, 1, 1], [0, 0, 1, 1]).value == 0.0
    assert c.expected_calibration_error([0, 0, 1, 1], [1, 1, 0, 0]).value == 1.0
    assert c.expected_calibration_error([], []).reason == "no forecast"
    with pytest.raises(ValueError, match="outside"):
        c.expected_calibration_error([1.2], [1])


def test_equal_mass_bins_hold_equal_numbers_and_keep_ties_together() -> None:
    confidence = np.random.default_rng(0).permutation(np.linspace(0.1, 0.9, 40))
    assert np.bincount(c.equal_mass_bin(confidence)).tolist() == [4] * 10
    assert len(set(c.equal_mass_bin([0.5] * 7).tolist())) == 1
    assert c.expected_calibration_error([0.5] * 4, [1, 1, 0, 0], equal_mass=True).value == 0.0


def test_the_top_label_of_tied_bins_is_shared() -> None:
    confidence, correct = c.top_label([[0.4, 0.4, 0.2, 0, 0, 0, 0, 0]], [SURE[1]])
    assert (confidence[0], correct[0]) == (0.4, 0.5)


def test_a_bin_outside_the_eight_is_refused() -> None:
    with pytest.raises(ValueError, match=r"outside 1\.\.8"):
        c.one_hot([0])


def test_class_wise_error_by_hand_and_by_classes() -> None:
    # Two rows, both sure of bin 1, one right: |1 - 1/2| for bin 1 and |0 - 1/2| for bin 2, over 8 classes.
    assert c.classwise_calibration_error(SURE[[0, 0]], SURE[[0, 1]]).value == pytest.approx((0.5 + 0.5) / 8)
    assert c.classwise_calibration_error(SURE, SURE).value == 0.0
    assert c.classwise_calibration_error(np.zeros((0, 8)), np.zeros((0, 8))).reason == "no forecast"
    p, q = _random(60, 7, sharp=0.4), _random(60, 8, sharp=0.4)
    by_class = [c.expected_calibration_error(p[:, b], q[:, b]).value for b in range(8)]
    assert c.classwise_calibration_error(p, q).value == pytest.approx(np.mean(np.array(by_class, dtype=float)))


def test_resampled_gaps_are_those_of_repeated_rows() -> None:
    p, q = _random(20, 9, sharp=0.4), _random(20, 10, sharp=0.4)
    weight = np.random.default_rng(0).integers(0, 4, (5, 20))
    confidence, correct = c.top_label(p, q)
    gaps = c.calibration_gaps(confidence, correct, c.equal_width_bin(confidence), Draws.of_rows(weight))
    classes = c.classwise_gaps(p, q, Draws.of_rows(weight))
    for w, gap, of_class in zip(weight, gaps, classes, strict=True):
        expected = c.expected_calibration_error(np.repeat(confidence, w), np.repeat(correct, w)).value
        assert np.abs(gap).sum() == pytest.approx(expected)
        rows = np.repeat(np.arange(20), w)
        assert np.abs(of_class).sum() == pytest.approx(c.classwise_calibration_error(p[rows], q[rows]).value)
        weighted = c.calibration_gaps(
            confidence, correct, c.equal_width_bin(confidence), Draws.sample(20), w.astype(float)
        )
        assert weighted[0] == pytest.approx(gap)
