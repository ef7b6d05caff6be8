"""Rewards against constants worked out by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmark.bins import bin_of
from benchmark.metrics.calibration import one_hot
from harness.train.rewards import REWARDS, RewardError, reward

# Mass 0.1, 0.2, 0.7 on bins 3, 4, 5.
FORECAST = np.array([[0, 0, 0.1, 0.2, 0.7, 0, 0, 0]])


@pytest.mark.parametrize(
    ("name", "speedup", "value"),
    [
        ("correctness", 1.2, 1.0),
        ("correctness", 1.0, 0.0),
        # (0.1^2 + 0.2^2 + 0.3^2) / 2 = 0.07, and (0.1^2 + 0.8^2 + 0.7^2) / 2 = 0.57
        ("brier", 1.2, 1 + 0.93),
        ("brier", 1.0, 0.43),
        ("brier-only", 1.2, 0.93),
        # The cumulative forecast is 0, 0, .1, .3, 1, 1, 1: (0.1^2 + 0.3^2) / 7, and (0.1^2 + 0.7^2) / 7
        ("rps", 1.2, 1 + 1 - 0.1 / 7),
        ("rps", 1.0, 1 - 0.5 / 7),
        ("rps-only", 1.0, 1 - 0.5 / 7),
        # Of a distance that the Brier score does not see: (2 + 0.9^2 + 0.7^2) / 7 of bin 1
        ("rps-only", 0.2, 1 - 3.3 / 7),
        # 1 + ln 0.7 / ln 10^4, and the floor for what had no probability
        ("log", 1.2, 1 + 1 - 0.356674943938732 / 9.210340371976182),
        ("log-only", 1.0, 1 - 1.6094379124341003 / 9.210340371976182),
        ("log-only", 5.0, 0.0),
    ],
)
def test_a_reward_of_a_hard_label(name: str, speedup: float, value: float) -> None:
    assert reward(name)(FORECAST, one_hot(bin_of([speedup]))) == pytest.approx([value], abs=1e-12)


def test_bins_are_those_that_are_scored() -> None:
    # The formula of the published release puts 1.2 in bin 4 and 1.5 in bin 5.
    sure = np.eye(8)
    assert reward("correctness")(sure[[4, 5, 3]], one_hot(bin_of([1.2, 1.5, 1.0]))).tolist() == [1, 1, 1]


def test_an_uncertain_label_is_rewarded_by_its_mass() -> None:
    label = np.array([[0, 0, 0, 0.4, 0.6, 0, 0, 0]])
    assert reward("correctness")(FORECAST, label) == pytest.approx([0.6])
    assert reward("brier")(FORECAST, label) == pytest.approx([0.6 + 0.6 * 0.93 + 0.4 * 0.43])


@pytest.mark.parametrize("name", [name for name, (_, score) in REWARDS.items() if score])
def test_weights_are_honoured(name: str) -> None:
    label = one_hot([5])
    none, one, three = (reward(name, weight)(FORECAST, label)[0] for weight in (0.0, 1.0, 3.0))
    assert three - none == pytest.approx(3 * (one - none)) and one > none
    assert none == (1.0 if REWARDS[name][0] else 0.0)


@pytest.mark.parametrize("name", REWARDS)
def test_an_unparsed_answer_gets_the_stated_reward_and_never_the_better_one(name: str) -> None:
    parsed = np.array([True, False])
    rows, label = np.vstack([FORECAST, np.full((1, 8), np.nan)]), one_hot([5, 5])
    assert reward(name)(rows, label, parsed)[1] == 0.0
    assert reward(name, unparsed=-0.5)(rows, label, parsed)[1] == -0.5
    worst = reward(name)(np.eye(8)[[7]], one_hot([1]))
    assert worst[0] >= 0.0


@pytest.mark.parametrize("name", ["brier-only", "rps-only", "log-only"])
def test_a_proper_score_is_best_at_the_truth(name: str) -> None:
    truth = np.array([0.05, 0.05, 0.1, 0.3, 0.2, 0.1, 0.1, 0.1])
    other = np.random.default_rng(0).dirichlet(np.full(8, 2.0), size=500)
    rows = np.vstack([truth, other])
    values = reward(name)(rows, np.broadcast_to(truth, rows.shape))
    assert values[0] > values[1:].max()


def test_correctness_ignores_confidence() -> None:
    sure, hesitant = np.eye(8)[[4]], np.full((1, 8), 0.124) + np.eye(8)[[4]] * 0.008
    label = one_hot([5])
    assert reward("correctness")(sure, label) == reward("correctness")(hesitant, label)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("crps",), "unknown reward 'crps'; write one of correctness, brier"),
        (("brier", float("nan")), "weight is nan, expected a finite number"),
        (("brier", -1.0), "weight is -1.0, expected 0 or more"),
        (("brier", 1.0, float("inf")), "unparsed is inf"),
        (("no_such_module_here:f",), "cannot load the reward 'no_such_module_here:f'"),
        (("math:pi",), "'math:pi' is no function"),
    ],
)
def test_a_reward_that_cannot_be(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(RewardError, match=message.replace("(", r"\(")):
        reward(*arguments)  # type: ignore[arg-type]


def test_a_reward_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rewards_of_mine.py").write_text(
        "import numpy as np\n"
        "def top(p, q):\n    return (p * q).sum(axis=1)\n"
        "def broken(p, q):\n    return np.where(q[:, 0] > 0, np.nan, 1.0)\n"
        "def short(p, q):\n    return np.ones(1)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    rows, label = np.repeat(FORECAST, 3, axis=0), one_hot([5, 4, 1])
    assert reward("rewards_of_mine:top", 2.0)(rows, label) == pytest.approx([1.4, 0.4, 0.0])
    with pytest.raises(RewardError, match="'rewards_of_mine:broken' is nan in row 2, and not finite in 1 of 3 rows"):
        reward("rewards_of_mine:broken")(rows, label)
    with pytest.raises(RewardError, match=r"gave an array of shape \(1,\) for 3 forecasts"):
        reward("rewards_of_mine:short")(rows, label)
