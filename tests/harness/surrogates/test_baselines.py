"""What every bundled surrogate promises, and the numbers of the simple ones."""

from __future__ import annotations

import random

import numpy as np
import pytest

from benchmark.query import Forecast
from harness.surrogates import BUNDLED
from harness.surrogates.baselines import BaseRate, NoChange, Oracle, Random, bin_rates
from harness.surrogates.run import forecast_all, invalid
from harness.surrogates.spec import create, parse
from harness.surrogates.training import Labelled


def ready(name: str, train: Labelled, validation: Labelled, asked: Labelled) -> object:
    surrogate = create(parse(name))
    if hasattr(surrogate, "fit"):
        surrogate.fit(train, validation)
    if isinstance(surrogate, Oracle):
        surrogate.reveal(asked)
    return surrogate


@pytest.mark.parametrize("name", BUNDLED)
def test_every_query_gets_a_valid_forecast_whatever_the_order_and_batch(
    name: str, train: Labelled, validation: Labelled, unseen: Labelled
) -> None:
    surrogate = ready(name, train, validation, unseen)
    first = forecast_all(surrogate, unseen.queries, batch=64)  # type: ignore[arg-type]
    assert [invalid(f) for f in first] == [None] * len(unseen)
    assert all(f.status == "ok" for f in first)
    shuffled = list(unseen.queries)
    random.Random(5).shuffle(shuffled)
    again = ready(name, train, validation, unseen)
    by_id = {q.query_id: f for q, f in zip(shuffled, forecast_all(again, shuffled, batch=7), strict=True)}  # type: ignore[arg-type]
    assert [by_id[q.query_id] for q in unseen.queries] == first
    alone = again.forecast([shuffled[0]])  # type: ignore[attr-defined]
    assert alone == [by_id[shuffled[0].query_id]]


@pytest.mark.parametrize("name", BUNDLED)
def test_every_surrogate_says_what_it_looks_at(name: str) -> None:
    surrogate = create(parse(name))
    assert surrogate.information in ("source", "compiled", "measured", "probe", "oracle")  # type: ignore[attr-defined]
    assert surrogate.transductive is False  # type: ignore[attr-defined]


def test_no_change_puts_its_mass_around_one(unseen: Labelled) -> None:
    forecast = NoChange().forecast(unseen.queries[:1])[0]
    assert forecast.log2_speedup == 0.0
    # Phi(2) - 1/2 of a standard normal lies between the edges at 0 and half an octave.
    assert forecast.probabilities is not None
    assert forecast.probabilities[3] == pytest.approx(0.4772498680518208)
    assert forecast.probabilities[4] == pytest.approx(0.4772498680518208)


def test_random_depends_on_the_id_and_the_seed_alone(unseen: Labelled) -> None:
    a, b = Random(1).forecast(unseen.queries[:2])
    assert a != b
    assert Random(2).forecast(unseen.queries[:1]) != [a]
    assert Random(1).forecast(unseen.queries[1:2]) == [b]


def test_bin_rates_by_hand() -> None:
    # One speedup of exactly 1 (bin 4) and two of 1.2 (bin 5): (0.5, 0.5, 0.5, 1.5, 2.5, 0.5, 0.5, 0.5) / 7.
    rates = bin_rates(np.log2([1.0, 1.2, 1.2]))
    np.testing.assert_allclose(rates, np.array([1, 1, 1, 3, 5, 1, 1, 1]) / 14)


def test_base_rate_knows_each_anchor_kind_and_its_failures(train: Labelled, validation: Labelled) -> None:
    surrogate = BaseRate()
    surrogate.fit(train, validation)
    parent, reference = (
        surrogate.forecast([next(q for q in train.queries if q.anchor_kind == kind)])[0]
        for kind in ("parent", "reference")
    )
    assert parent.probabilities != reference.probabilities
    kinds = np.array([q.anchor_kind == "parent" for q in train.queries])
    assert parent.p_fail == pytest.approx((np.sum(kinds & ~train.ok) + 0.5) / (kinds.sum() + 1))


def test_base_rate_without_training_says_so(unseen: Labelled) -> None:
    with pytest.raises(ValueError, match="no base rate for anchor kind 'parent'"):
        BaseRate().forecast(unseen.queries[:1])


def test_the_oracle_repeats_the_labels(unseen: Labelled) -> None:
    oracle = Oracle()
    oracle.reveal(unseen)
    for i, forecast in enumerate(oracle.forecast(unseen.queries)):
        assert isinstance(forecast, Forecast)
        if unseen.ok[i]:
            assert forecast.log2_speedup == unseen.log2_speedup[i]
            assert forecast.p_fail == 0.0
        else:
            assert forecast.p_fail == 1.0
            assert forecast.rank_score is not None and forecast.rank_score < -10
