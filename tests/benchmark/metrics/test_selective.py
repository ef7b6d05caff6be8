"""Risk-coverage and the areas under it: by hand, by enumeration of tied orders, and at size."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest

from benchmark.metrics import selective as s
from benchmark.metrics.tally import Draws


def test_the_curve_and_its_area_by_hand() -> None:
    coverage, risk = s.risk_coverage_curve([0.9, 0.5, 0.7], [0, 1, 1])
    assert coverage == pytest.approx([1 / 3, 2 / 3, 1])
    assert risk == pytest.approx([0, 1 / 2, 2 / 3])
    assert s.aurc([0.9, 0.5, 0.7], [0, 1, 1]).value == pytest.approx((0 + 1 / 2 + 2 / 3) / 3)
    assert s.excess_aurc([0.9, 0.5, 0.7], [0, 1, 1]).value == pytest.approx(0.0)
    # The worst order: 1, 2/2, 2/3.
    assert s.excess_aurc([0.1, 0.5, 0.7], [0, 1, 1]).value == pytest.approx(
        (1 + 1 + 2 / 3) / 3 - (0 + 1 / 2 + 2 / 3) / 3
    )


@pytest.mark.parametrize("confidence", [[0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [2, 1, 1, 1, 0], [4, 3, 2, 1, 0]])
def test_tied_confidences_take_the_mean_over_all_orders(confidence: list[int]) -> None:
    risk = np.array([0.3, 0.0, 1.0, 0.5, 0.2])
    curves = [
        np.cumsum(risk[list(order)]) / np.arange(1, 6)
        for order in itertools.permutations(range(5))
        if all(confidence[a] >= confidence[b] for a, b in itertools.pairwise(order))
    ]
    mean = np.mean(curves, axis=0)
    assert s.risk_coverage_curve(confidence, risk)[1] == pytest.approx(mean)
    assert s.aurc(confidence, risk).value == pytest.approx(mean.mean())
    assert s.accuracy_at(confidence, 1 - risk, 0.4).value == pytest.approx(1 - mean[1])


def test_the_curve_ends_at_the_mean_risk_and_the_area_is_its_mean() -> None:
    rng = np.random.default_rng(0)
    confidence, risk = rng.integers(0, 20, 300) / 20, rng.random(300)
    _, curve = s.risk_coverage_curve(confidence, risk)
    assert curve[-1] == pytest.approx(risk.mean())
    assert s.aurc(confidence, risk).value == pytest.approx(curve.mean())
    assert s.accuracy_at(confidence, 1 - risk, 1.0).value == pytest.approx(1 - risk.mean())
    # A constant confidence knows nothing: its curve is flat.
    assert s.aurc(np.ones(300), risk).value == pytest.approx(risk.mean())


def test_no_order_beats_the_order_of_the_risks() -> None:
    rng = np.random.default_rng(1)
    risk = rng.random(50)
    assert s.excess_aurc(-risk, risk).value == 0.0
    for _ in range(20):
        assert (s.excess_aurc(rng.random(50), risk).value or 0.0) > 0.0


def test_multiplicities_are_repeated_rows() -> None:
    rng = np.random.default_rng(2)
    confidence, risk = rng.integers(0, 6, 20) / 6, rng.random(20)
    weight = rng.integers(0, 4, (7, 20))
    found = s.selective_resampled(confidence, risk, (0.3, 0.8), Draws.of_rows(weight))
    for w, row in zip(weight, found, strict=True):
        c, r = np.repeat(confidence, w), np.repeat(risk, w)
        assert row[0] == pytest.approx(s.aurc(c, r).value)
        assert row[1] == pytest.approx(s.excess_aurc(c, r).value)
        assert row[2:] == pytest.approx([1 - (s.accuracy_at(c, 1 - r, k).value or 0.0) for k in (0.3, 0.8)])


def test_what_cannot_be_selected_is_undefined_or_refused() -> None:
    assert s.aurc([], []).reason == s.NO_ROW
    assert s.excess_aurc([], []).value is None
    assert s.accuracy_at([], [], 0.5).value is None
    assert [len(part) for part in s.risk_coverage_curve([], [])] == [0, 0]
    with pytest.raises(ValueError, match="the coverage is 0"):
        s.accuracy_at([1.0], [1.0], 0)
    with pytest.raises(ValueError, match="risk of row 1 is NaN"):
        s.aurc([1.0, 2.0], [0.0, np.nan])
    with pytest.raises(ValueError, match="same length"):
        s.aurc([1.0, 2.0], [0.0])
    with pytest.raises(ValueError, match="expected one length"):
        s.risk_coverage_curve([1.0, 2.0], [0.0])
    with pytest.raises(ValueError, match="row 1 has a confidence or risk of NaN"):
        s.risk_coverage_curve([1.0, np.nan], [0.0, 1.0])


def test_a_hundred_thousand_rows_take_no_time() -> None:
    rng = np.random.default_rng(0)
    confidence, risk = rng.random(100_000), rng.random(100_000)
    spent = []
    for _ in range(5):
        start = time.process_time()
        s.risk_coverage_curve(confidence, risk)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.05, spent
