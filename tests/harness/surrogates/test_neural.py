"""The small neural pair model: features, loss, and a surrogate that is the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.surrogates.baselines import BaseRate
from harness.surrogates.neural import NeuralPair
from harness.surrogates.saved import load, save
from harness.surrogates.tokens import GAP, changed_lines, hashed, tokenise
from harness.surrogates.training import Labelled
from tests.harness.surrogates.test_learned import log_loss

torch = pytest.importorskip("torch")
Rows = Callable[[int, int], Labelled]


def test_tokens_split_names_and_size_numbers() -> None:
    assert tokenise("BLOCK_M = 128\n    x = 0.5 * n0 + 0x40") == (
        "block", "m", "=", "<7>", "<line 1>", "x", "=", "<-1>", "*", "n", "<0>", "+", "<6>",
    )  # fmt: skip
    assert tokenise("a = 130") == tokenise("a = 128") != tokenise("a = 64")


def test_changed_lines_have_their_neighbours_and_a_gap() -> None:
    before = "\n".join(f"line {i}" for i in range(20))
    after = before.replace("line 3\n", "line three\n").replace("line 15", "line fifteen")
    old, new = changed_lines(before, after)
    assert new.splitlines() == [
        "line 1", "line 2", "line three", "line 4", "line 5", GAP, "line 13", "line 14", "line fifteen", "line 16",
        "line 17",
    ]  # fmt: skip
    assert "line 3" in old.splitlines() and changed_lines(before, before) == ("", "")


def test_a_token_has_the_same_row_everywhere() -> None:
    assert hashed("block", 2048) == 1186  # 1 + CRC-32 modulo 2047
    assert 1 <= hashed("", 16) < 16


def test_features_and_batches(rows: Rows) -> None:
    from harness.surrogates.neural_model import BAG, NUMBERS, WINDOW, batches, featurise

    features = featurise(rows(5, 1).queries)
    shapes = [getattr(features, name).shape for name in ("anchor", "candidate", "bags", "numbers")]
    assert shapes == [(5, WINDOW), (5, WINDOW), (5, 2 * BAG), (5, len(NUMBERS))]
    parts = list(batches(features, 2, np.random.default_rng(0)))
    assert sorted(i for index, _ in parts for i in index) == [0, 1, 2, 3, 4]
    index, part = parts[0]
    assert (part.numbers == features.numbers[index]).all()
    assert len(featurise([])) == 0


def test_the_loss_is_least_at_the_label_distribution() -> None:
    from harness.surrogates.neural_model import Targets, loss

    mass = np.array([[0, 0, 0, 0.25, 0.75, 0, 0, 0]])
    wanted = Targets(mass, np.zeros(1), np.zeros(1), np.ones(1))

    def at(p: float) -> float:
        logits = torch.log(torch.tensor([[1e-9] * 3 + [1 - p, p] + [1e-9] * 3], dtype=torch.float64))
        return float(loss((logits, torch.zeros(1).double(), torch.full((1,), -50.0).double()), wanted))

    assert at(0.75) < min(at(0.7), at(0.8))
    assert at(0.75) == pytest.approx(-0.25 * np.log(0.25) - 0.75 * np.log(0.75), abs=1e-6)


def test_a_failed_row_counts_for_the_failure_alone(rows: Rows) -> None:
    from harness.surrogates.neural_model import targets

    some = rows(200, 1)
    found = targets(some)
    assert (found.failed == ~some.ok).all() and (found.mass[~some.ok] == 0).all()
    np.testing.assert_allclose(found.mass[some.ok].sum(axis=1), 1.0)


def test_the_same_seed_gives_the_same_forecasts_and_a_copy_too(rows: Rows, tmp_path: Path) -> None:
    train, validation, unseen = rows(48, 1), rows(16, 2), rows(6, 3)
    models = [NeuralPair(seed=seed, steps=3, width=16) for seed in (0, 0, 1)]
    for model in models:
        model.fit(train, validation)
    first, second, other = (model.forecast(unseen.queries) for model in models)
    assert first == second != other
    save(models[0], "neural?steps=3&width=16", "x", tmp_path / "saved")
    assert load(str(tmp_path / "saved")).forecast(unseen.queries) == first
    alone = models[0].forecast(unseen.queries[2:3])
    assert alone == first[2:3]


def test_a_dirichlet_head_can_stand_on_the_encoder(rows: Rows) -> None:
    from harness.surrogates.neural_model import PairEncoder, featurise

    features = featurise(rows(3, 1).queries)
    encoder = PairEncoder(width=16)
    encoder.standardise(features)
    concentration = torch.nn.functional.softplus(torch.nn.Linear(16, 8)(encoder(features))) + 1e-3
    sample = torch.distributions.Dirichlet(concentration).rsample()
    sample.log().sum().backward()
    assert sample.shape == (3, 8)
    assert all(p.grad is not None for p in encoder.parameters())


@pytest.mark.slow
def test_it_learns(rows: Rows) -> None:
    train, validation, unseen = rows(600, 1), rows(150, 2), rows(200, 3)
    model, base = NeuralPair(epochs=12), BaseRate()
    model.fit(train, validation)
    base.fit(train, validation)
    assert log_loss(model, unseen) < 0.8 * log_loss(base, unseen)
    again = model.forecast([replace(unseen.queries[0], anchor_time_us=None)])
    assert again[0].status == "ok"
