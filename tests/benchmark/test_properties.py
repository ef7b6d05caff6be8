"""What has to hold for any forecaster: no order matters, equal is equal, and leaving out or cheating gains nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.answers import Labels
from benchmark.comparison import compare, ranks
from benchmark.forecasts import COLUMNS, PROBABILITIES, ForecastError, Forecasts, forecasts_of
from benchmark.metrics.catalogue import HEADLINES, METRICS
from benchmark.scoring import ScoreResult, score_labels
from tests.benchmark.synthetic import label_table, noisy_forecasts

TABLE = label_table(tasks=3, searches=3, rows=10)
LABELS = Labels.from_table(TABLE)
TRACKS = ("pairs", "eval", "pool")
SHARES = ("rps", "half_brier", "ece", "ap_", "auroc", "recall", "precision", "accuracy", "pairwise")
any_forecaster = st.tuples(st.sampled_from([0.05, 0.3, 1.0, 4.0]), st.integers(0, 2**16), st.sampled_from([1, 2, 12]))
few = settings(max_examples=12, deadline=None)


def forecaster(noise: float, seed: int, decimals: int) -> Forecasts:
    """Return a forecaster of any quality; few decimals make ties."""
    exact = noisy_forecasts(TABLE, noise, seed, p_fail=np.random.default_rng(seed).random(TABLE.num_rows))
    p = np.round(exact.probabilities, decimals) + 1e-3
    return dataclasses.replace(exact, probabilities=p / p.sum(axis=1, keepdims=True))


def score(forecasts: Forecasts, track: str, labels: Labels = LABELS, name: str = "x") -> ScoreResult:
    return score_labels(forecasts, labels, track, "test", "synthetic", 60, name=name)


def rows_of(forecasts: Forecasts, rows: np.ndarray) -> Forecasts:
    changed = {
        f.name: getattr(forecasts, f.name)[rows]
        for f in dataclasses.fields(Forecasts)
        if isinstance(getattr(forecasts, f.name), np.ndarray)
    }
    return dataclasses.replace(forecasts, **changed)


@few
@given(any_forecaster, st.integers(0, 2**16), st.sampled_from(TRACKS))
def test_shuffling_rows_changes_nothing(made: tuple[float, int, int], seed: int, track: str) -> None:
    rng = np.random.default_rng(seed)
    forecasts = forecaster(*made)
    labels = Labels.from_table(TABLE.take(pa.array(rng.permutation(TABLE.num_rows))))
    shuffled = rows_of(forecasts, rng.permutation(len(forecasts)))
    first, second = score(forecasts, track), score(shuffled, track, labels)
    assert first == second
    for metric in METRICS[track]:
        assert np.array_equal(first.replicates[metric], second.replicates[metric], equal_nan=True)


@few
@given(any_forecaster, any_forecaster, st.sampled_from(TRACKS))
def test_identical_submissions_share_every_figure_and_rank(
    one: tuple[float, int, int], other: tuple[float, int, int], track: str
) -> None:
    results = [score(forecaster(*made), track, name=n) for made, n in ((one, "a"), (other, "b"), (one, "c"))]
    assert results[0].metrics == results[2].metrics
    assert results[0].per_task == results[2].per_task
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        places = dict(zip(order, ranks([results[i] for i in order]), strict=True))
        assert places[0] == places[2]


@few
@given(any_forecaster, any_forecaster, st.sampled_from(TRACKS))
def test_answering_only_the_easy_tenth_never_ranks_above_answering_all(
    one: tuple[float, int, int], other: tuple[float, int, int], track: str
) -> None:
    full, picky = forecaster(*one), forecaster(*other)
    truth = dict(zip(LABELS.query_id.tolist(), LABELS.hard.argmax(axis=1).tolist(), strict=True))
    own = np.array([p[truth[i]] for i, p in zip(picky.query_id, picky.probabilities, strict=True)])
    easy = np.argsort(-own)[: len(picky) // 10]
    part = score(rows_of(picky, easy), track, name="part")
    whole = score(full, track, name="whole")
    for order in ([part, whole], [whole, part]):
        place = dict(zip([r.name for r in order], ranks(order), strict=True))
        assert place["part"] is None
    assert part.coverage == pytest.approx(0.1, abs=0.02)
    alone = ranks([whole])
    assert ranks([whole, part])[0] == alone[0]


@few
@given(any_forecaster, st.integers(0, 89), st.sampled_from([0.5, 0.99, 1.01, 2.0]))
def test_probabilities_that_do_not_sum_to_one_are_refused_by_row(
    made: tuple[float, int, int], row: int, total: float
) -> None:
    forecasts = forecaster(*made)
    p = forecasts.probabilities.copy()
    p[row] *= total / p[row].sum()
    columns: dict[str, Any] = {"query_id": forecasts.query_id, **dict(zip(PROBABILITIES, p.T, strict=True))}
    if (p[row] > 1 + 1e-4).any():
        expected = rf"row {row}, field 'p\d': found .*, expected a probability in \[0, 1\]"
    else:
        expected = rf"row {row}, field 'p1\.\.p8': found 'a sum of {total:g}', expected 1 within 0\.0001"
    with pytest.raises(ForecastError, match=expected):
        forecasts_of(columns)
    p[row] /= p[row].sum()
    assert len(forecasts_of({"query_id": forecasts.query_id, **dict(zip(PROBABILITIES, p.T, strict=True))})) == 90
    assert COLUMNS[1:9] == PROBABILITIES


@few
@given(any_forecaster, any_forecaster, st.sampled_from(TRACKS))
def test_comparisons_are_antisymmetric(one: tuple[float, int, int], other: tuple[float, int, int], track: str) -> None:
    a, b = score(forecaster(*one), track, name="a"), score(forecaster(*other), track, name="b")
    there, back = compare(a, b), compare(b, a)
    assert there.metric == HEADLINES[track]
    if there.value is not None and back.value is not None:
        assert there.value == -back.value
        assert there.p_value == back.p_value
        assert not (there.first_is_better and back.first_is_better)


@few
@given(any_forecaster, st.sampled_from(TRACKS))
def test_every_figure_is_a_number_in_its_range_or_null_with_a_reason(made: tuple[float, int, int], track: str) -> None:
    result = score(forecaster(*made), track)
    for name, value in result.metrics.items():
        if value.value is None:
            assert value.reason, name
        elif name.startswith(
            ("rps", "half_brier", "ece", "ap_", "auroc", "recall", "precision", "accuracy", "pairwise")
        ):
            assert -1e-9 <= value.value <= 1 + 1e-9, name
        elif name.startswith(("spearman", "kendall")):
            assert -1 <= value.value <= 1, name
        elif name.startswith(("log_loss", "entropy", "aurc", "lift", "fail")):
            assert value.value >= -1e-12, name
