"""Discovery metrics against hand-computed values, scikit-learn, and enumeration of random orders."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from benchmark.metrics import discovery
from benchmark.metrics.tally import Draws


def _sample(seed: int, n: int = 50, ties: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    score = rng.normal(size=n) if ties is None else rng.integers(0, ties, n).astype(float)
    return score, rng.random(n) < 0.3


@pytest.mark.parametrize("seed", range(5))
def test_without_ties_average_precision_is_scikit_learns(seed: int) -> None:
    score, y = _sample(seed)
    assert discovery.average_precision(score, y).value == pytest.approx(average_precision_score(y, score))


def test_average_precision_by_hand() -> None:
    # Positives at places 1, 3 and 4: (1/1 + 2/3 + 3/4) / 3.
    assert discovery.average_precision([4, 3, 2, 1], [1, 0, 1, 1]).value == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)


@pytest.mark.parametrize("score", [[0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [2, 1, 1, 1, 0, 0], [2, 2, 1, 1, 0, 0]])
@pytest.mark.parametrize("y", [[1, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 1], [0, 0, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1]])
def test_tied_scores_take_the_mean_over_all_orders(score: list[int], y: list[int]) -> None:
    found = []
    for order in itertools.permutations(range(6)):
        if all(score[a] >= score[b] for a, b in itertools.pairwise(order)):
            hits = np.array([y[i] for i in order])
            found.append((np.cumsum(hits) / np.arange(1, 7))[hits == 1].mean())
    assert discovery.average_precision(score, y).value == pytest.approx(np.mean(found))


@pytest.mark.parametrize("ties", [None, 2, 6])
def test_auroc_is_scikit_learns_with_ties(ties: int | None) -> None:
    score, y = _sample(1, ties=ties)
    assert discovery.auroc(score, y).value == pytest.approx(roc_auc_score(y, score))


def test_multiplicities_are_repeated_rows() -> None:
    score, y = _sample(2, 20, ties=7)
    weight = np.random.default_rng(4).integers(0, 4, (8, 20))
    tally = discovery.Tally.of(score, y, Draws.of_rows(weight))
    for i, w in enumerate(weight):
        rows = np.repeat(score, w), np.repeat(y, w)
        ap, area = discovery.average_precision(*rows).value, discovery.auroc(*rows).value
        assert discovery.average_precision_resampled(tally)[i] == pytest.approx(ap)
        assert discovery.auroc_resampled(tally)[i] == pytest.approx(area)
        assert discovery.lift_resampled(tally, 0.1)[i] == pytest.approx(discovery.lift(*rows, 0.1).value)
        assert discovery.base_rate_resampled(tally)[i] == pytest.approx(rows[1].mean())
        k = int(np.ceil(np.round(0.1 * len(rows[1]), 9)))
        assert discovery.precision_resampled(tally, 0.1)[i] == pytest.approx(discovery.precision_at(*rows, k).value)
        assert discovery.recall_resampled(tally, 0.1)[i] == pytest.approx(discovery.recall_at(*rows, k).value)
        constant = discovery.average_precision(np.zeros(len(rows[1])), rows[1]).value
        assert discovery.random_average_precision_resampled(tally)[i] == pytest.approx(constant)


def test_chance_is_the_mean_average_precision_over_all_orders() -> None:
    y = np.array([1, 1, 0, 0, 0])
    orders = itertools.permutations(range(5))
    mean = np.mean([average_precision_score(y, order) for order in orders])
    tally = discovery.Tally.of(np.arange(5), y)
    assert discovery.random_average_precision_resampled(tally)[0] == pytest.approx(mean)
    assert mean > y.mean()


def test_a_constant_score_gains_nothing_from_the_order_of_the_file() -> None:
    first, last = [1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1]
    for metric in (discovery.average_precision, discovery.auroc):
        assert metric([1.0] * 6, first) == metric([1.0] * 6, last)
    assert discovery.auroc([1.0] * 6, first).value == 0.5
    assert discovery.precision_at([1.0] * 6, first, 2) == discovery.precision_at([1.0] * 6, last, 2)


def test_undefined_values_have_a_reason() -> None:
    assert discovery.average_precision([1, 2], [0, 0]).reason == discovery.NO_POSITIVE
    assert discovery.auroc([1, 2], [1, 1]).reason == discovery.ONE_CLASS
    assert discovery.auroc([1, 2], [0, 0]).value is None
    assert discovery.recall_at([1, 2], [0, 0], 1).reason == discovery.NO_POSITIVE
    assert discovery.lift([1, 2], [0, 0], 0.5).value is None
    assert discovery.average_precision([], []).value is None
    assert discovery.precision_at([1, 2], [0, 1], 3).reason == "k is 3 and there are 2 rows"


def test_precision_recall_and_lift_at_k() -> None:
    score, y = [5, 4, 3, 2, 1], [1, 0, 1, 0, 0]
    assert discovery.precision_at(score, y, 3).value == pytest.approx(2 / 3)
    assert discovery.recall_at(score, y, 1).value == 0.5
    assert discovery.lift(score, y, 0.2).value == pytest.approx(1 / 0.4)
    assert discovery.precision_at([5, 4, 4, 1, 1], y, 2).value == pytest.approx((1 + 0.5) / 2)


def test_labels_and_scores_have_one_length() -> None:
    with pytest.raises(ValueError, match="same length"):
        discovery.average_precision([1.0, 2.0, 3.0], [[1, 0, 1]])


def test_the_precision_recall_curve_is_scikit_learns() -> None:
    score, y = _sample(5, 60, ties=9)
    thresholds, precision, recall = discovery.precision_recall_curve(score, y)
    expected = precision_recall_curve(y, score)
    assert thresholds[::-1] == pytest.approx(expected[2])
    assert precision[::-1] == pytest.approx(expected[0][:-1])
    assert recall[::-1] == pytest.approx(expected[1][:-1])
    with pytest.raises(ValueError, match="no positive row"):
        discovery.precision_recall_curve([1.0, 2.0], [0, 0])
