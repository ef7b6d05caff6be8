"""The permutation p-value: against enumeration, within searches, whatever the order of the rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmark.metrics import discovery, permutation
from benchmark.metrics.discovery import NO_POSITIVE


def test_permutations_within_searches_do_not_reward_telling_searches_apart() -> None:
    search = np.repeat(["a", "b"], 40)
    positive = np.concatenate([np.arange(40) % 4 > 0, np.arange(40) % 8 == 0])
    by_search = np.repeat([1.0, 0.0], 40)
    assert permutation.permutation_p_value(by_search, positive, search).value == 1.0
    good = positive + np.random.default_rng(0).normal(0, 0.3, 80)
    assert permutation.permutation_p_value(good, positive, search, 300).value == pytest.approx(1 / 301)


def test_the_order_of_the_rows_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    search, positive = np.repeat(["a", "b", "c"], 20), rng.random(60) < 0.3
    score, shuffle = rng.integers(0, 9, 60).astype(float), rng.permutation(60)
    assert permutation.permutation_p_value(score, positive, search) == permutation.permutation_p_value(
        score[shuffle], positive[shuffle], search[shuffle]
    )


@pytest.mark.parametrize("score", [[5, 4, 3, 2, 1, 0], [2, 2, 1, 1, 0, 0], [3, 1, 1, 1, 0, 0]])
def test_average_precision_of_sets_of_rows_is_that_of_the_labels(score: list[int]) -> None:
    for count in (1, 2, 3):
        sets = np.array(list(itertools.combinations(range(6), count)), dtype=np.int32)
        expected = [discovery.average_precision(score, np.isin(np.arange(6), rows)).value for rows in sets]
        assert permutation.average_precision_of(score, sets) == pytest.approx(expected)


def test_the_p_value_is_near_the_share_of_all_permutations() -> None:
    score, positive = np.array([5.0, 4, 3, 2, 1, 0]), np.array([1, 0, 1, 0, 0, 0], dtype=bool)
    observed = discovery.average_precision(score, positive).value or 0.0
    sets = np.array(list(itertools.combinations(range(6), 2)), dtype=np.int32)
    exact = (permutation.average_precision_of(score, sets) >= observed - 1e-12).mean()
    found = permutation.permutation_p_value(score, positive, ["s"] * 6, permutations=4000).value
    assert found == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4000))


def test_positives_stay_in_their_search() -> None:
    rng = np.random.default_rng(2)
    search, positive = np.repeat([0, 1, 2], [5, 1, 9]), rng.random(15) < 0.5
    score = rng.random(15)
    places = permutation.permuted_places(search, 50)
    landed = permutation.landing_rows(score, positive, search, places)
    for rows in landed:
        assert len(set(rows.tolist())) == positive.sum()
        assert np.bincount(search[rows], minlength=3).tolist() == np.bincount(search[positive], minlength=3).tolist()


def test_without_a_positive_it_is_undefined() -> None:
    assert permutation.permutation_p_value([1, 2], [0, 0], ["a", "a"]).reason == NO_POSITIVE
    assert np.isnan(permutation.macro_p_value([np.nan], [np.full(3, np.nan)]))
    assert permutation.macro_p_value([0.9, np.nan], [np.array([0.1, 0.95, 0.2]), np.full(3, np.nan)]) == 2 / 4
