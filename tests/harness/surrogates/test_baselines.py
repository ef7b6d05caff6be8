"""What every bundled surrogate promises, and the numbers of the simple ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from benchmark.query import Forecast, Query, Surrogate
from harness.surrogates import BUNDLED
from harness.surrogates.baselines import BaseRate, NoChange, Oracle, Random, bin_rates
from harness.surrogates.noise_ceiling import NoiseCeiling, Second
from harness.surrogates.privileged import Raw
from harness.surrogates.probes import Probe
from harness.surrogates.run import forecast_all
from harness.surrogates.spec import create, parse
from harness.surrogates.training import Labelled
from harness.surrogates.validity import invalid

Rows = Callable[[int, int], Labelled]
QUICK = {"gbdt": "gbdt?iterations=8", "compiled": "compiled?iterations=8", "neural": "neural?steps=4&width=16"}


def with_facts(rows: Labelled) -> Labelled:
    """Add compiled facts: the registers follow from the length of the source."""

    def facts(code: str) -> dict[str, int]:
        return {"registers": len(code) % 97, "spills": 0}

    queries = [
        replace(
            q, facts={**q.facts, "compiled": {"candidate": facts(q.candidate_code), "anchor": facts(q.anchor_code)}}
        )
        for q in rows.queries
    ]
    return replace(rows, queries=queries)


def ready(name: str, train: Labelled, validation: Labelled, asked: Labelled) -> Surrogate:
    """Return a bundled surrogate, fitted and shown what its class may see."""
    if name == "neural":
        pytest.importorskip("torch")
    surrogate = create(parse(QUICK.get(name, name)))
    if isinstance(surrogate, Probe):
        every = [*train.queries, *validation.queries, *asked.queries]
        surrogate.reveal([Raw(q.query_id, q.candidate_code, 0.5, 0.25, 1) for q in every])
    if hasattr(surrogate, "fit"):
        surrogate.fit(train, validation)
    if isinstance(surrogate, Oracle):
        surrogate.reveal(asked)
    if isinstance(surrogate, NoiseCeiling):
        surrogate.reveal([Second(q.query_id, 0.25, 0.1) for q in asked.queries])
    return surrogate


def timeless(forecasts: list[Forecast]) -> list[Forecast]:
    return [replace(forecast, seconds=None) for forecast in forecasts]


NAMES = [pytest.param(name, marks=pytest.mark.slow) if name == "neural" else name for name in BUNDLED]


@pytest.mark.parametrize("name", NAMES)
def test_every_query_gets_a_valid_forecast_whatever_the_order_and_batch(name: str, rows: Rows) -> None:
    train, validation, unseen = (with_facts(rows(n, seed)) for n, seed in ((160, 1), (60, 2), (30, 3)))
    surrogate = ready(name, train, validation, unseen)
    first = timeless(forecast_all(surrogate, unseen.queries, batch=64))
    assert [invalid(f) for f in first] == [None] * len(unseen)
    assert all(f.status == "ok" for f in first)
    shuffled: list[Query] = list(unseen.queries)
    random.Random(5).shuffle(shuffled)
    again = ready(name, train, validation, unseen)
    answers = timeless(forecast_all(again, shuffled, batch=7))
    by_id = {q.query_id: f for q, f in zip(shuffled, answers, strict=True)}
    assert [by_id[q.query_id] for q in unseen.queries] == first
    assert timeless(list(again.forecast([shuffled[0]]))) == [by_id[shuffled[0].query_id]]


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


def test_the_noise_ceiling_spreads_the_second_measurement_over_the_bins(unseen: Labelled) -> None:
    ceiling = NoiseCeiling()
    first, second, third = (q.query_id for q in unseen.queries[:3])
    ceiling.reveal([Second(first, 0.25, 0.125), Second(second, None, 0.0), Second(third, 0.25, 0.0)])
    spread, missing, sharp = ceiling.forecast(unseen.queries[:3])
    assert spread.probabilities is not None and sharp.probabilities is not None
    # The edges at 0 and 0.5 are two standard deviations away.
    assert spread.probabilities[4] == pytest.approx(0.9544997361036416)
    assert (missing.status, missing.probabilities) == ("refused", None)
    assert sharp.probabilities[4] == 1.0
