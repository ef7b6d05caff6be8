"""Texts that state forecasts: their order, the reward of what they state, and examples of the form alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmark.metrics.calibration import one_hot
from harness.surrogates.lm.parsing import Said, parse_answer
from harness.train.answers import balanced_order, examples, judge, read, statement
from harness.train.rewards import REWARDS, RewardError, reward

GOOD = json.dumps(dict(zip([f"p{b}" for b in range(1, 9)], [0, 0, 0.1, 0.2, 0.7, 0, 0, 0], strict=True)))


def test_every_row_occurs_and_tasks_occur_equally_often() -> None:
    tasks = ["a"] * 7 + ["b"] * 3 + ["c"]
    order = balanced_order(tasks, 1)
    assert set(order) == set(range(11)) and len(order) == 21
    assert [sum(tasks[i] == name for i in order) for name in "abc"] == [7, 7, 7]
    assert sorted(np.bincount(order)[7:10]) == [2, 2, 3]
    assert (balanced_order(tasks, 1) == order).all() and (balanced_order(tasks, 2) != order).any()


@pytest.mark.parametrize("name", REWARDS)
def test_a_text_is_rewarded_as_the_forecast_that_it_states(name: str) -> None:
    label = one_hot([5, 5, 5])
    found = judge(reward(name, 0.5, unparsed=-0.25))([GOOD, "fast, I think", f"So: {GOOD}"], mass=label, prompts=[])
    stated = reward(name, 0.5)(np.array([[0, 0, 0.1, 0.2, 0.7, 0, 0, 0]]), label[:1])[0]
    assert found == pytest.approx([stated, -0.25, stated])


def test_a_reward_of_nan_stops_the_trainer() -> None:
    from harness.train.rewards import Reward

    with pytest.raises(RewardError, match="reward 'mine' is nan in row 0"):
        judge(Reward("mine", False, lambda p, q: np.full(len(p), np.nan)))([GOOD], mass=one_hot([5]))


def test_what_cannot_be_read_is_marked() -> None:
    forecast, parsed = read([GOOD, ""])
    assert parsed.tolist() == [True, False] and forecast.shape == (2, 8)


def test_a_statement_is_read_back_and_sums_to_one() -> None:
    rng = np.random.default_rng(0)
    for row in rng.dirichlet(np.full(8, 0.3), size=200):
        parsed = parse_answer(Said(statement(row)))
        assert parsed.status == "ok" and parsed.probabilities is not None
        np.testing.assert_allclose(parsed.probabilities, row, atol=0.01)
        assert parsed.raw_sum == pytest.approx(1.0, abs=1e-12)


def test_examples_follow_the_base_rates_and_vary() -> None:
    rates = np.array([0.0, 0.1, 0.2, 0.4, 0.2, 0.1, 0.0, 0.0])
    rows, parsed = read(examples(rates, 400, 0))
    assert parsed.all() and (rows.std(axis=0)[1:6] > 0.03).all()
    np.testing.assert_allclose(rows.mean(axis=0), (16 * rates + 0.25) / 18, atol=0.02)
    assert examples(rates, 3, 1) == examples(rates, 3, 1) != examples(rates, 3, 2)
