"""Recalibration: temperature and isotonic maps, against what made the labels."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark.bins import Floats
from harness.surrogates.calibration import Calibration, apply_by_kind, check_method, fit_by_kind, fit_calibration
from harness.surrogates.foreign import SurrogateError


def sample(n: int, sharpness: float) -> tuple[Floats, Floats]:
    """Return forecasts that are `sharpness` times too sure, and labels drawn from the true probabilities."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(8, 0.7), size=n)
    said = truth**sharpness
    labels = np.array([rng.choice(8, p=p) for p in truth])
    return said / said.sum(axis=1, keepdims=True), np.eye(8)[labels]


def log_loss(p: Floats, target: Floats) -> float:
    return float(-(target * np.log(np.maximum(p, 1e-12))).sum(axis=1).mean())


def test_the_temperature_undoes_overconfidence() -> None:
    said, target = sample(4000, sharpness=2.0)
    found = fit_calibration("temperature", said, target)
    assert found.temperature == pytest.approx(2.0, rel=0.08)
    assert log_loss(found.apply(said), target) < log_loss(said, target) - 0.1


def test_a_temperature_of_two_is_a_square_root() -> None:
    p = np.array([[0.64, 0.36, 0, 0, 0, 0, 0, 0]])
    np.testing.assert_allclose(Calibration(temperature=2.0).apply(p)[0, :2], np.array([0.8, 0.6]) / 1.4, atol=1e-5)


def test_few_rows_leave_the_temperature_near_one() -> None:
    said, target = sample(4000, sharpness=2.0)
    few = fit_calibration("temperature", said[:3], target[:3])
    assert abs(np.log(few.temperature)) < abs(np.log(2.0))


def test_isotonic_maps_rates_to_rates() -> None:
    # The first bin is announced with 0.2 and comes half the time, with 0.6 and always comes.
    said = np.zeros((40, 8))
    said[:20, :2], said[20:, :2] = (0.2, 0.8), (0.6, 0.4)
    target = np.zeros((40, 8))
    target[:10, 0], target[10:20, 1], target[20:, 0] = 1, 1, 1
    mapped = fit_calibration("isotonic", said, target).apply(said)
    assert mapped[0, 0] == pytest.approx(0.5, abs=0.01)
    assert mapped[-1, 0] > 0.95
    np.testing.assert_allclose(mapped.sum(axis=1), 1.0)
    assert (mapped > 0).all()


def test_none_and_no_rows_change_nothing() -> None:
    said, target = sample(50, sharpness=2.0)
    for found in (fit_calibration("none", said, target), fit_calibration("isotonic", said[:0], target[:0])):
        np.testing.assert_allclose(found.apply(said), said, atol=1e-9)


def test_kinds_have_maps_of_their_own_if_they_have_rows_enough() -> None:
    sure, target = sample(600, sharpness=2.0)
    vague, _ = sample(600, sharpness=0.5)
    said = np.concatenate([sure, vague, sure[:3]])
    wanted = np.concatenate([target, target, target[:3]])
    kinds = ["parent"] * 600 + ["reference"] * 600 + ["other"] * 3
    maps = fit_by_kind("temperature", said, wanted, kinds)
    assert set(maps) == {"", "parent", "reference"}
    assert maps["parent"].temperature > 1.5 and maps["reference"].temperature < 0.7
    out = apply_by_kind(maps, said, kinds)
    np.testing.assert_allclose(out[-1], maps[""].apply(said[-1:])[0])


def test_a_map_survives_json() -> None:
    said, target = sample(200, sharpness=2.0)
    for method in ("temperature", "isotonic"):
        found = fit_calibration(method, said, target)
        assert Calibration.from_json(found.to_json()) == found


def test_an_unknown_method_lists_the_known_ones() -> None:
    with pytest.raises(
        SurrogateError, match="unknown calibration 'platt'; expected one of temperature, isotonic, none"
    ):
        check_method("platt")
