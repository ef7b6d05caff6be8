"""Advantages and gradients on toys whose answers are known, and what each kind of reward does to confidence."""

from __future__ import annotations

import numpy as np
import pytest

from benchmark.bins import Floats
from benchmark.metrics.calibration import entropy, half_brier, one_hot
from harness.train.rewards import reward

torch = pytest.importorskip("torch")
from harness.train.compact import concentrations, mean_forecast, sample  # noqa: E402
from harness.train.policy_gradient import group_advantages, policy_loss  # noqa: E402


def test_advantages_worked_out_by_hand() -> None:
    rewards = np.array([[1.0, 0.0, 0.0, 1.0], [0.5, 0.5, 0.5, 0.5], [4.0, 0.0, 0.0, 0.0]])
    # Against the mean of the other three: 1 - 1/3, and so on.
    plain = np.array([[2, -2, -2, 2], [0, 0, 0, 0], [12, -4, -4, -4]]) / 3
    np.testing.assert_allclose(group_advantages(rewards, "none"), plain)
    # Deviations are +-0.5 four times, 0 four times, and 3, -1, -1, -1: the mean of their squares is 13 / 12.
    np.testing.assert_allclose(group_advantages(rewards, "batch"), plain / np.sqrt(13 / 12))
    np.testing.assert_allclose(group_advantages(rewards, "group"), plain / np.array([[0.5], [1.0], [np.sqrt(3)]]))


def test_groups_of_equal_rewards_have_no_advantage() -> None:
    for scale in ("batch", "group", "none"):
        assert not group_advantages(np.full((3, 5), 0.1 + 0.2), scale).any()


@pytest.mark.parametrize(("size", "scale", "message"), [(1, "batch", "has 1 rollouts"), (2, "std", "unknown scale")])
def test_advantages_that_cannot_be(size: int, scale: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        group_advantages(np.ones((2, size)), scale)


def test_the_gradient_of_a_two_armed_bandit() -> None:
    # J = pi_1 r_1 + pi_2 r_2 with a softmax over two logits: dJ/dz_1 = pi_1 pi_2 (r_1 - r_2) = -dJ/dz_2.
    logits = torch.tensor([0.4, -0.3], dtype=torch.float64, requires_grad=True)
    worth = np.array([0.9, 0.2])
    torch.manual_seed(0)
    arm = torch.multinomial(torch.softmax(logits.detach(), 0), 200_000, replacement=True).reshape(-1, 4)
    policy_loss(torch.log_softmax(logits, 0)[arm], group_advantages(worth[arm.numpy()], "none")).backward()
    first, second = torch.softmax(logits.detach(), 0).tolist()
    known = first * second * 0.7
    assert logits.grad is not None
    np.testing.assert_allclose(-logits.grad.numpy(), [known, -known], atol=2e-3)


def test_the_gradient_of_a_dirichlet() -> None:
    # The mean of component b is a_b / A; rewarded by p_1, dJ/da_1 = (A - a_1) / A^2 and dJ/da_b = -a_1 / A^2.
    alpha = torch.arange(1.0, 9.0, dtype=torch.float64).reshape(1, 8).requires_grad_()
    torch.manual_seed(0)
    forecast, density = sample(alpha.expand(10_000, 8), 8)
    policy_loss(density, group_advantages(forecast[:, :, 0], "none")).backward()
    known = np.full(8, -1 / 36**2)
    known[0] = 35 / 36**2
    assert alpha.grad is not None
    np.testing.assert_allclose(-alpha.grad[0].numpy(), known, atol=4e-4)


def test_weights_scale_a_query() -> None:
    density = torch.zeros(2, 2, requires_grad=True)
    policy_loss(density, np.array([[1.0, -1.0], [1.0, -1.0]]), np.array([0.5, 1.5])).backward()
    np.testing.assert_allclose(density.grad.numpy() * 4, [[-0.5, 0.5], [-1.5, 1.5]])


def test_the_calibration_term_varies_within_a_group_of_sampled_forecasts() -> None:
    torch.manual_seed(0)
    forecast, _ = sample(concentrations(torch.zeros(5, 9, dtype=torch.float64)), 16)
    label = np.repeat(one_hot([1, 3, 4, 5, 8]), 16, axis=0)
    term = (1 - half_brier(forecast.reshape(-1, 8), label)).reshape(5, 16)
    assert (term.std(axis=1) > 0.01).all()
    assert np.abs(group_advantages(term)).min(axis=1).max() > 0


def test_the_calibration_term_would_cancel_if_the_forecast_were_the_softmax_of_the_policy() -> None:
    softmax = np.array([0.05, 0.05, 0.1, 0.3, 0.2, 0.1, 0.1, 0.1])
    action = np.random.default_rng(0).choice(8, size=16, p=softmax)
    term = 1 - half_brier(np.tile(softmax, (16, 1)), np.tile(one_hot([4]), (16, 1)))
    correct = (action == 3).astype(float)
    with_term = group_advantages((correct + term)[None], "none")
    np.testing.assert_allclose(with_term, group_advantages(correct[None], "none"), atol=1e-12)
    assert with_term.any()


TRUTH = np.array([[0, 0, 0, 0.3, 0.7, 0, 0, 0]])


def learn(name: str, start: float, scale: str = "batch", hard: bool = False, steps: int = 150) -> Floats:
    """Return the forecast of one query whose bins are 4 and 5 with 0.3 and 0.7, learned from logit `start` of bin 5."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    raw = torch.zeros(1, 9, dtype=torch.float64)
    raw[0, 4] = start
    raw.requires_grad_()
    optimiser = torch.optim.Adam([raw], 0.08)
    rewarded, n, group = reward(name), 8, 8
    for _ in range(steps):
        forecast, density = sample(concentrations(raw).expand(n, 8), group)
        label = one_hot(np.where(rng.random(n) < 0.7, 5, 4)) if hard else np.repeat(TRUTH, n, axis=0)
        found = rewarded(forecast.reshape(-1, 8), np.repeat(label, group, axis=0)).reshape(n, group)
        optimiser.zero_grad()
        policy_loss(density, group_advantages(found, scale)).backward()
        optimiser.step()
    return mean_forecast(concentrations(raw.detach())).numpy()


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_correctness_leaves_the_entropy_free_to_collapse() -> None:
    known = float(entropy(TRUTH)[0])  # 0.611 nats
    hesitant, collapsed = learn("correctness", 0.0), learn("correctness", 8.0)
    assert hesitant.argmax() == collapsed.argmax() == 4
    # The confidence that training began with is all that decides where it ends.
    assert entropy(collapsed)[0] < 0.8 * known < 1.5 * known < entropy(hesitant)[0]
    assert collapsed[0, 4] > 0.85 and hesitant[0, 4] < 0.8


@pytest.mark.parametrize(("name", "start"), [("brier", 8.0), ("rps-only", 0.0)])
def test_a_proper_score_finds_the_truth_from_either_side(name: str, start: float) -> None:
    np.testing.assert_allclose(learn(name, start), TRUTH, atol=0.06)


def test_dividing_by_the_spread_of_each_group_spoils_a_proper_score() -> None:
    # Every group then pulls equally hard towards its own label, however little is at stake, and the majority wins.
    assert learn("brier-only", 0.0, "batch", hard=True)[0, 4] < 0.8
    assert learn("brier-only", 0.0, "group", hard=True)[0, 4] > 0.9
