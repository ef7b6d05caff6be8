"""What the surrogates that learn share: calibration, saving and loading, and what each can learn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmark.bins import bin_mass
from benchmark.metrics.ranking import spearman
from benchmark.query import Query, Surrogate
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.linear import Length, Roofline, model_time, passes_and_launches, predict, ridge
from harness.surrogates.lookup import ConstantLookup, NearestSeed
from harness.surrogates.saved import load, save
from harness.surrogates.spec import create, parse
from harness.surrogates.training import Labelled
from tests.harness.surrogates.conftest import source

Rows = Callable[[int, int], Labelled]
LEARNED = (
    "length", "roofline", "lookup", "nearest-seed", "neighbours?k=8", "gbdt?iterations=8",
    "swapped(length)", "recalibrated(uniform)?method=isotonic", "ensemble(lookup,length,uniform)?weights=fitted",
)  # fmt: skip


def fitted(expression: str, train: Labelled, validation: Labelled) -> Surrogate:
    surrogate = create(parse(expression))
    surrogate.fit(train, validation)  # type: ignore[attr-defined]
    return surrogate


def log_loss(surrogate: Surrogate, rows: Labelled) -> float:
    target = bin_mass(rows.log2_speedup[rows.ok], rows.log2_sd[rows.ok])
    p = np.array([f.probabilities for f in surrogate.forecast(rows.queries)])[rows.ok]
    return float(-(target * np.log(np.maximum(p, 1e-12))).sum(axis=1).mean())


@pytest.mark.parametrize("expression", LEARNED)
def test_a_saved_surrogate_forecasts_the_same_to_the_last_bit(expression: str, rows: Rows, tmp_path: Path) -> None:
    unseen = rows(20, 3)
    surrogate = fitted(expression, rows(120, 1), rows(60, 2))
    save(surrogate, expression, "synthetic", tmp_path / "saved")
    again = create(parse(f"trained={tmp_path / 'saved'}"))
    assert again.forecast(unseen.queries) == surrogate.forecast(unseen.queries)
    assert again.fitted is True and len(again.fingerprint) == 64  # type: ignore[attr-defined]


def test_what_cannot_be_saved_or_loaded_says_why(rows: Rows, tmp_path: Path) -> None:
    with pytest.raises(SurrogateError, match="no fitted state"):
        save(create(parse("uniform")), "uniform", "x", tmp_path / "x")
    with pytest.raises(SurrogateError, match="holds no saved surrogate"):
        load(str(tmp_path))
    folder = tmp_path / "saved"
    save(fitted("length", rows(60, 1), rows(30, 2)), "length", "x", folder)
    description = json.loads((folder / "surrogate.json").read_text())
    (folder / "surrogate.json").write_text(json.dumps({**description, "format": 99}))
    with pytest.raises(SurrogateError, match="format 99, expected 1"):
        load(str(folder))
    (folder / "surrogate.json").write_text(json.dumps(description))
    (folder / "arrays.npz").write_bytes(b"PK")
    with pytest.raises(SurrogateError, match="no sound surrogate"):
        load(str(folder))


def test_no_code_is_read_from_a_folder(rows: Rows, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    save(fitted("length", rows(60, 1), rows(30, 2)), "length", "x", folder)
    np.savez(folder / "arrays.npz", **{"/0": np.array([object()], dtype=object)})
    with pytest.raises(SurrogateError, match="allow_pickle"):
        load(str(folder))


def test_calibration_is_fitted_on_validation_alone_and_shows(rows: Rows) -> None:
    train, validation, unseen = rows(300, 1), rows(150, 2), rows(200, 3)
    raw, calibrated = (
        fitted(f"gbdt?iterations=10&calibrate={how}", train, validation) for how in ("none", "temperature")
    )
    assert log_loss(calibrated, unseen) < log_loss(raw, unseen)
    empty = Labelled([], [], np.zeros(0), np.zeros(0))
    without = fitted("gbdt?iterations=10", train, empty)
    assert without.forecast(unseen.queries) == raw.forecast(unseen.queries)


def test_an_unknown_calibration_and_no_training_rows_are_refused() -> None:
    with pytest.raises(SurrogateError, match="unknown calibration 'platt'"):
        create(parse("length?calibrate=platt"))
    empty = Labelled([], [], np.zeros(0), np.zeros(0))
    with pytest.raises(SurrogateError, match="needs training rows with a speedup"):
        Length().fit(empty, empty)
    with pytest.raises(SurrogateError, match="Length has not been fitted"):
        Length().forecast([Query("p", "pairs", "t", "", "parent", "a", "b", 1.0, "H200")])


def test_ridge_by_hand() -> None:
    # y = 2 x on x in -1, 1: with as much evidence for zero as there are rows, half the slope is left.
    line = ridge(np.array([[-1.0], [1.0]]), np.array([-2.0, 2.0]), penalty=2.0)
    np.testing.assert_allclose(predict(line, np.array([[3.0], [0.0]])), [3.0, 0.0])


def test_length_learns_a_slope(rows: Rows) -> None:
    train = rows(200, 1)
    grown = [replace(q, candidate_code=q.anchor_code + "\n" * (40 * (i % 9))) for i, q in enumerate(train.queries)]
    growth = np.array([np.log2((1 + len(q.candidate_code)) / (1 + len(q.anchor_code))) for q in grown])
    labelled = replace(train, queries=grown, log2_speedup=-growth, status=["ok"] * 200, log2_sd=np.full(200, 0.02))
    answers = fitted("length", labelled, labelled).forecast(grown)
    log2 = np.array([a.log2_speedup for a in answers], dtype=np.float64)
    assert np.corrcoef(log2, -growth)[0, 1] > 0.97


def test_the_roofline_counts_passes_and_launches() -> None:
    # Four reads and writes of 2^26 bytes at 4.3e12 B/s, and a launch that costs 2 us.
    facts = {"cases": [{"bytes": 2**26, "flops": 0, "timing": True}]}
    code = "def custom_kernel(data):\n    return data.mul(2).add(1).sqrt().exp()\n"
    from harness.surrogates.features import source_features

    assert passes_and_launches(source_features(code)) == (4.0, 4.0)
    assert model_time(code, facts, 2.0) == pytest.approx(np.log2(4 * 2**26 / 4.3e12 * 1e6 + 4 * 2.0))
    assert model_time(code, {}, 2.0) == 0.0


def test_the_roofline_survives_a_query_without_a_time(rows: Rows) -> None:
    model = fitted("roofline", rows(80, 1), rows(40, 2))
    query = replace(rows(1, 3).queries[0], anchor_time_us=None)
    assert model.forecast([query])[0].status == "ok"


def test_the_lookup_repeats_what_the_same_edit_did(rows: Rows) -> None:
    base = rows(1, 1).queries[0]
    before, up, down = source(256, 4), source(256, 8), source(256, 2)
    queries = [
        replace(base, query_id=f"p-{i}", anchor_code=before, candidate_code=(up, down)[i % 2]) for i in range(80)
    ]
    log2 = np.where(np.arange(80) % 2, -1.0, 1.0)
    train = Labelled(queries, ["ok"] * 80, log2, np.full(80, 0.01))
    model = ConstantLookup()
    model.fit(train, train)
    known = [a.log2_speedup for a in model.forecast(queries[:2])]
    assert known[0] == pytest.approx(1.0, abs=0.1) and known[1] == pytest.approx(-1.0, abs=0.1)
    # The same doubling of warps from another start, in another task: found by its size.
    other = replace(base, task="other", anchor_code=source(512, 2), candidate_code=source(512, 4))
    assert model.forecast([other])[0].log2_speedup == pytest.approx(1.0, abs=0.3)


def test_the_nearest_seed_gives_the_mean_of_its_descendants(rows: Rows) -> None:
    base = rows(1, 1).queries[0]
    seeds = (source(256, 4), "import torch\ndef custom_kernel(data):\n    return torch.cumsum(data[0], 0)\n")
    queries, log2 = [], []
    for i in range(60):
        seed = seeds[i % 2]
        child = seed.replace("256", str(257 + i)).replace(", 0)", f", {i})")
        queries.append(replace(base, query_id=f"p-{i}", anchor_code=seed, candidate_code=child))
        log2.append((0.75, -1.5)[i % 2])
    train = Labelled(queries, ["ok"] * 60, np.array(log2), np.full(60, 0.01))
    model = NearestSeed()
    model.fit(train, train)
    asked = [replace(base, query_id=f"q-{i}", candidate_code=s.replace("256", "999")) for i, s in enumerate(seeds)]
    means = [a.log2_speedup for a in model.forecast(asked)]
    assert means == pytest.approx([0.75, -1.5], abs=0.15)


def test_neighbours_and_the_roofline_order_unseen_kernels(rows: Rows) -> None:
    train, validation, unseen = rows(400, 1), rows(100, 2), rows(120, 3)
    for expression, least in (("neighbours", 0.6), ("roofline", 0.2)):
        answers = fitted(expression, train, validation).forecast(unseen.queries)
        log2 = np.array([a.log2_speedup for a in answers], dtype=np.float64)
        rho = spearman(log2[unseen.ok], unseen.log2_speedup[unseen.ok]).value
        assert rho is not None and rho > least, expression


def test_a_roofline_is_fitted_with_the_launch_cost_of_the_train_split(rows: Rows) -> None:
    model = Roofline()
    model.fit(rows(80, 1), rows(40, 2))
    assert model.state()[0]["launch_us"] in (0.5, 1.0, 2.0, 4.0, 8.0)
