"""The gradient-boosted baseline: fit, pool of components, and what it learns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmark.bins import Floats, bin_mass
from benchmark.metrics.ranking import spearman
from benchmark.query import Forecast
from harness.surrogates.baselines import BaseRate
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.gbdt import GradientBoosting, softmax
from harness.surrogates.mixture import mix, mixture_weights
from harness.surrogates.training import Labelled

Rows = Callable[[int, int], Labelled]


@pytest.fixture(scope="module")
def fitted(train: Labelled, validation: Labelled) -> GradientBoosting:
    model = GradientBoosting(seed=0, iterations=30)
    model.fit(train, validation)
    return model


def log_loss(forecasts: Sequence[Forecast], rows: Labelled) -> float:
    target = bin_mass(rows.log2_speedup[rows.ok], rows.log2_sd[rows.ok])
    p = np.array([f.probabilities for f in forecasts])[rows.ok]
    return float(-(target * np.log(p)).sum(axis=1).mean())


def test_it_orders_unseen_kernels_and_beats_the_base_rate(
    fitted: GradientBoosting, train: Labelled, validation: Labelled, unseen: Labelled
) -> None:
    forecasts = fitted.forecast(unseen.queries)
    log2 = np.array([f.log2_speedup for f in forecasts], dtype=np.float64)
    rho = spearman(log2[unseen.ok], unseen.log2_speedup[unseen.ok])
    assert rho.value is not None and rho.value > 0.85
    base = BaseRate()
    base.fit(train, validation)
    assert log_loss(forecasts, unseen) < 0.75 * log_loss(base.forecast(unseen.queries), unseen)


def test_it_knows_what_fails_and_ranks_it_lower_in_a_pool(fitted: GradientBoosting, unseen: Labelled) -> None:
    forecasts = fitted.forecast(unseen.queries)
    p_fail = np.array([f.p_fail for f in forecasts], dtype=np.float64)
    assert not unseen.ok.all()
    assert p_fail[~unseen.ok].min() > p_fail[unseen.ok].max()
    for query, f in zip(unseen.queries, forecasts, strict=True):
        assert f.log2_speedup is not None and f.p_fail is not None
        in_pool = pytest.approx(f.log2_speedup + np.log2(max(1 - f.p_fail, 1e-6)))
        assert f.rank_score == (in_pool if query.track == "pool" else None)


def test_the_same_seed_gives_the_same_forecasts(
    fitted: GradientBoosting, train: Labelled, validation: Labelled, unseen: Labelled
) -> None:
    again, other = GradientBoosting(seed=0, iterations=30), GradientBoosting(seed=1, iterations=30)
    again.fit(train, validation)
    other.fit(train, validation)
    assert again.forecast(unseen.queries) == fitted.forecast(unseen.queries)
    assert other.forecast(unseen.queries) != fitted.forecast(unseen.queries)


def test_without_failures_in_training_none_is_forecast(train: Labelled, validation: Labelled, unseen: Labelled) -> None:
    keep = [i for i in range(len(train)) if train.ok[i]]
    clean = Labelled(
        [train.queries[i] for i in keep], ["ok"] * len(keep), train.log2_speedup[keep], train.log2_sd[keep]
    )
    model = GradientBoosting(iterations=10)
    model.fit(clean, validation)
    assert {f.p_fail for f in model.forecast(unseen.queries)} == {0.0}


def test_an_anchor_kind_that_training_lacks_gets_the_overall_rate(fitted: GradientBoosting, unseen: Labelled) -> None:
    forecast = fitted.forecast([replace(unseen.queries[0], anchor_kind="other")])[0]
    assert forecast.probabilities is not None
    assert sum(forecast.probabilities) == pytest.approx(1.0)


def test_no_validation_rows_leave_equal_weights(rows: Rows) -> None:
    train = rows(120, 4)
    model = GradientBoosting(iterations=5)
    model.fit(train, Labelled([], [], np.zeros(0), np.zeros(0)))
    assert all(f.status == "ok" for f in model.forecast(train.queries[:3]))


def test_too_little_to_learn_from_says_so(rows: Rows) -> None:
    one = rows(1, 4)
    with pytest.raises(SurrogateError, match="at least two bins"):
        GradientBoosting().fit(one, one)
    with pytest.raises(SurrogateError, match="has not been fitted"):
        GradientBoosting().forecast(one.queries)


def test_softmax_of_one_row_does_not_depend_on_the_others() -> None:
    scores: Floats = np.random.default_rng(0).normal(size=(50, 8))
    assert all((softmax(scores[i : i + 1])[0] == softmax(scores)[i]).all() for i in range(50))
    np.testing.assert_allclose(softmax(np.array([0.0, np.log(3)])), [[0.5, 0.5], [0.25, 0.75]])


def test_the_pool_prefers_the_component_that_knows() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 8, 500)
    good = 0.9 * np.eye(8)[labels] + 0.1 / 8
    flat = np.full((500, 8), 1 / 8)
    weights = mixture_weights(np.stack([flat, good], axis=1), np.eye(8)[labels])
    assert weights[1] > 0.99
    np.testing.assert_allclose(mix(np.stack([flat, good], axis=1), np.array([0.5, 0.5])), (flat + good) / 2)


def test_pool_weights_by_hand() -> None:
    # Two components that each name one bin for sure: the weights are the bins' shares, with two pseudo-rows each.
    components = np.zeros((10, 2, 8))
    components[:, 0, 3], components[:, 1, 4] = 1.0, 1.0
    target = np.eye(8)[[3] * 8 + [4] * 2]
    np.testing.assert_allclose(mixture_weights(components, target), [10 / 14, 4 / 14])
