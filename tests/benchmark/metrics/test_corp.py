"""The CORP decomposition: by hand, by identities, and against scikit-learn and scoringrules."""

from __future__ import annotations

import numpy as np
import pytest
import scoringrules
from scoringrules.visualization.reliability import corp_reliability, corp_score_decomposition
from sklearn.isotonic import IsotonicRegression

from benchmark.metrics import calibration, corp

PARTS = ("miscalibration", "discrimination", "uncertainty")


def test_pooling_by_hand() -> None:
    # 0.6 and 0.4 violate the order and are pooled; equal probabilities share a value.
    assert corp.isotonic_fit([0.1, 0.2, 0.3, 0.9], [0.0, 0.6, 0.4, 1.0]) == pytest.approx([0, 0.5, 0.5, 1])
    assert corp.isotonic_fit([0.5, 0.5, 0.7], [1, 0, 1]) == pytest.approx([0.5, 0.5, 1])
    assert len(corp.isotonic_fit([], [])) == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_fit_is_scikit_learns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, y, w = rng.integers(0, 15, 80) / 15, rng.random(80), rng.random(80) + 0.1
    model = IsotonicRegression().fit(p, y, sample_weight=w)
    assert corp.isotonic_fit(p, y, w) == pytest.approx(model.predict(p))
    shuffle = rng.permutation(80)
    assert corp.isotonic_fit(p[shuffle], y[shuffle], w[shuffle]) == pytest.approx(corp.isotonic_fit(p, y, w)[shuffle])


@pytest.mark.parametrize("seed", range(4))
def test_the_parts_add_up_to_the_score_and_are_scoringrules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.random(200)
    y = (rng.random(200) < p**2).astype(float)
    found = corp.brier_decomposition(p, y)
    assert found.score == pytest.approx(scoringrules.brier_score(y, p).mean())
    recalibrated, plain, base = corp_score_decomposition(*corp_reliability(y, p))
    assert found.miscalibration == pytest.approx(plain - recalibrated)
    assert found.discrimination == pytest.approx(base - recalibrated)
    assert found.uncertainty == pytest.approx(base)
    assert min(getattr(found, part) for part in PARTS) >= 0


def test_constants_of_plain_forecasters() -> None:
    y = [1, 0, 0, 0]
    base = corp.brier_decomposition([0.25] * 4, y)
    assert (base.miscalibration, base.discrimination, base.uncertainty) == pytest.approx((0, 0, 3 / 16))
    perfect = corp.brier_decomposition(y, y)
    assert (perfect.miscalibration, perfect.discrimination) == pytest.approx((0, 3 / 16))
    assert perfect.score == pytest.approx(0)
    backwards = corp.brier_decomposition([0, 1, 1, 1], y)
    assert backwards.miscalibration == pytest.approx(1 - 3 / 16)
    assert backwards.discrimination == pytest.approx(0)


def test_the_ranked_probability_score_is_decomposed_edge_by_edge() -> None:
    rng = np.random.default_rng(5)
    p, q = rng.dirichlet(np.ones(8), 120), rng.dirichlet(np.full(8, 0.3), 120)
    found = corp.rps_decomposition(p, q)
    assert found.score == pytest.approx(calibration.ranked_probability_score(p, q).mean())
    weight = rng.random(120)
    weighted = corp.rps_decomposition(p, q, weight)
    assert weighted.score == pytest.approx(np.average(calibration.ranked_probability_score(p, q), weights=weight))
    assert found != weighted


def test_recalibrating_removes_the_miscalibration_and_keeps_the_discrimination() -> None:
    rng = np.random.default_rng(6)
    p = rng.random(300)
    y = (rng.random(300) < 0.2 + 0.3 * p).astype(float)
    before, after = corp.brier_decomposition(p, y), corp.brier_decomposition(corp.isotonic_fit(p, y), y)
    assert after.miscalibration == pytest.approx(0, abs=1e-12)
    assert after.discrimination == pytest.approx(before.discrimination)
    assert before.miscalibration > 0.01


def test_the_band_holds_a_calibrated_forecaster_and_not_another() -> None:
    rng = np.random.default_rng(7)
    p = rng.integers(1, 10, 800) / 10
    calibrated = corp.reliability_curve(p, rng.random(800) < p, level=0.99)
    inside = (calibrated.low <= calibrated.recalibrated) & (calibrated.recalibrated <= calibrated.high)
    assert inside.all()
    assert calibrated.rows.sum() == 800
    assert calibrated.probability == pytest.approx(np.arange(1, 10) / 10)
    wrong = corp.reliability_curve(p, rng.random(800) < 1 - p, level=0.99)
    assert ((wrong.recalibrated < wrong.low) | (wrong.recalibrated > wrong.high)).any()
    again = corp.reliability_curve(p, rng.random(800) < p, seed=1)
    assert (again.low <= again.high).all()


def test_bad_input_is_refused_by_row() -> None:
    with pytest.raises(ValueError, match=r"probability of row 1 is 1\.5"):
        corp.isotonic_fit([0.5, 1.5], [0, 1])
    with pytest.raises(ValueError, match="outcome of row 0 is nan"):
        corp.isotonic_fit([0.5, 0.5], [np.nan, 1])
    with pytest.raises(ValueError, match="expected one dimension, the same"):
        corp.isotonic_fit([0.5], [0, 1])
    for function in (corp.brier_decomposition, corp.reliability_curve):
        with pytest.raises(ValueError, match="no row"):
            function([], [])
