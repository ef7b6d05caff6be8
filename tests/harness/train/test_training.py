"""The compact policy and its loop: learns, is the same for the same seed, and resumes to the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmark.bins import Floats
from harness.surrogates.saved import load
from harness.surrogates.training import Labelled
from tests.harness.surrogates.conftest import make_rows

torch = pytest.importorskip("torch")
from harness.train import checkpoint, command, loop  # noqa: E402
from harness.train.checkpoint import CheckpointError  # noqa: E402
from harness.train.compact import Compact, forecasts, new_model  # noqa: E402
from harness.train.loop import Run, Settings, train  # noqa: E402
from harness.train.rewards import Reward, RewardError  # noqa: E402
from harness.train.rows import Rows, batch_rows, measured  # noqa: E402

SETTINGS = Settings(reward="rps", seed=3, dataset="synthetic", steps=12, batch=8, group=4)
LINES = 4  # of the history, so that there is a checkpoint every third step


@pytest.fixture(scope="module", autouse=True)
def few_lines() -> Iterator[None]:
    before, loop.LINES = loop.LINES, LINES
    yield
    loop.LINES = before


@pytest.fixture(scope="module")
def some() -> Rows:
    return measured(make_rows(30, 1), "train")


@pytest.fixture(scope="module")
def held() -> Rows:
    return measured(make_rows(20, 2), "validation")


@pytest.fixture(scope="module")
def whole(some: Rows, held: Rows, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(SETTINGS, some, held, tmp_path_factory.mktemp("whole"))


def weights(folder: Path) -> dict[str, np.ndarray]:
    with np.load(folder / checkpoint.FILE) as stored:
        return {name: stored[name] for name in stored.files if name != "json"}


def same(a: Run, b: Run) -> bool:
    return a.state.best.keys() == b.state.best.keys() and all(
        torch.equal(a.state.best[name], b.state.best[name]) for name in a.state.best
    )


def test_all_rows_come_before_any_comes_again() -> None:
    epoch = [batch_rows(10, 4, 0, step) for step in range(3)]
    assert sorted(np.concatenate(epoch)) == list(range(10))
    following = np.concatenate([batch_rows(10, 4, 0, step) for step in range(3, 6)])
    assert sorted(following) == list(range(10)) and (following != np.concatenate(epoch)).any()
    assert (batch_rows(10, 4, 0, 2) == epoch[2]).all() and (batch_rows(10, 4, 1, 2) != epoch[2]).any()
    assert len(batch_rows(3, 8, 0, 5)) == 3


def test_tasks_weigh_the_same_and_failures_are_left_out() -> None:
    found = make_rows(30, 4)
    queries = [replace(q, task="rare" if i < 4 else q.task) for i, q in enumerate(found.queries)]
    rows = measured(Labelled(queries, found.status, found.log2_speedup, found.log2_sd), "train")
    assert len(rows) == found.ok.sum() and np.isfinite(rows.log2).all()
    rare = np.array([q.task == "rare" for q in rows.queries])
    assert rows.weight[rare].sum() == pytest.approx(rows.weight[~rare].sum()) == pytest.approx(len(rows) / 2)


def test_a_split_without_a_measured_row_is_refused() -> None:
    nothing = Labelled([], [], np.zeros(0), np.zeros(0))
    with pytest.raises(ValueError, match="split 'train' is empty: no row has a measured speedup"):
        measured(nothing, "split 'train'")


def test_the_same_seed_gives_the_same_weights_and_another_does_not(
    whole: Run, some: Rows, held: Rows, tmp_path: Path
) -> None:
    assert same(train(SETTINGS, some, held, tmp_path), whole)
    assert not same(train(replace(SETTINGS, seed=4), some, held, tmp_path), whole)


def test_a_run_that_dies_between_checkpoints_resumes_to_the_same_weights(
    some: Rows, held: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unbroken = train(SETTINGS, some, held, tmp_path)
    last = weights(tmp_path)
    update, calls = loop._update, 0

    def dies(*arguments: Any) -> float:
        nonlocal calls
        calls += 1
        if calls == 9:  # two steps after the checkpoint of the sixth
            raise KeyboardInterrupt
        return update(*arguments)

    broken = tmp_path / "broken"
    broken.mkdir()
    monkeypatch.setattr(loop, "_update", dies)
    with pytest.raises(KeyboardInterrupt):
        train(SETTINGS, some, held, broken)
    resumed = train(SETTINGS, some, held, broken, resume=True)
    assert calls == 9 + 12 - 6 and resumed.finished
    assert same(resumed, unbroken)
    # Not the best weights alone: the last ones, the optimiser and the random state too.
    mine = weights(broken)
    assert last.keys() == mine.keys() and all(np.array_equal(last[name], mine[name]) for name in last)
    keys = [key for key in unbroken.state.history[0] if key != "seconds"]
    assert [[line[k] for k in keys] for line in resumed.state.history] == [
        [line[k] for k in keys] for line in unbroken.state.history
    ]


def test_a_time_limit_stops_and_resuming_finishes(whole: Run, some: Rows, held: Rows, tmp_path: Path) -> None:
    stopped = train(SETTINGS, some, held, tmp_path, time_limit=0.0)
    assert not stopped.finished and stopped.state.step == 0
    resumed = train(SETTINGS, some, held, tmp_path, resume=True)
    assert resumed.finished and same(resumed, whole)


@pytest.mark.slow
@pytest.mark.parametrize("reward", ["rps", "supervised"])
def test_training_learns(reward: str, tmp_path: Path) -> None:
    some, held = measured(make_rows(300, 1), "train"), measured(make_rows(100, 2), "validation")
    settings = Settings(reward=reward, seed=3, dataset="synthetic", steps=300, learning_rate=3e-3)
    done = train(settings, some, held, tmp_path)
    first, best = done.state.history[0], max(done.state.history, key=lambda line: line["objective"])
    assert best["rps"] < 0.6 * first["rps"] and best["spearman"] > 0.5


def test_the_kept_weights_are_those_that_did_best(whole: Run, held: Rows) -> None:
    best = max(line["objective"] for line in whole.state.history)
    model = new_model(Compact().width)
    model.load_state_dict(whole.state.best)
    from harness.train.validation import objective

    assert objective(forecasts(model, held.features), held, SETTINGS.rewarded()) == best == whole.state.best_objective


def test_a_reward_that_is_not_a_number_ends_the_run(
    some: Rows, held: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(p: Floats, q: Floats) -> Floats:
        return np.full(len(p), np.nan)

    monkeypatch.setattr(Settings, "rewarded", lambda self: Reward("mine", False, broken))
    with pytest.raises(RewardError, match="reward 'mine' is nan in row 0"):
        train(SETTINGS, some, held, tmp_path)


def test_a_checkpoint_of_another_run_is_refused(some: Rows, held: Rows, tmp_path: Path) -> None:
    train(SETTINGS, some, held, tmp_path, time_limit=0.0)
    with pytest.raises(CheckpointError, match="made with reward 'rps', and this run asks for 'brier'"):
        train(replace(SETTINGS, reward="brier"), some, held, tmp_path, resume=True)
    (tmp_path / checkpoint.FILE).write_bytes(b"PK\x03\x04 no more")
    with pytest.raises(CheckpointError, match="is no sound checkpoint"):
        train(SETTINGS, some, held, tmp_path, resume=True)
    with pytest.raises(CheckpointError, match=r"holds no checkpoint\.npz to resume from"):
        train(SETTINGS, some, held, tmp_path / "nothing", resume=True)


def test_a_run_writes_a_surrogate_curves_and_a_summary(
    some: Rows, held: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "load_rows", lambda split, *rest: some if split == "train" else held)
    out, lines = tmp_path / "out", []
    summary = command.run(SETTINGS, out, say=lines.append)
    assert sorted(path.name for path in out.iterdir()) == [
        "arrays.npz", "checkpoint.npz", "curves.png", "surrogate.json", "training.json",
    ]  # fmt: skip
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert summary["finished"] and len(summary["history"]) == 1 + LINES
    assert lines[-1].startswith("step 12/12: reward ") and lines[-1].endswith(" 0 s left")
    assert all(word in lines[-1] for word in ("RPS", "ECE", "Spearman"))
    surrogate = load(str(out))
    rows = surrogate.forecast(held.queries)
    model = new_model(Compact().width)
    with np.load(out / "arrays.npz") as arrays:
        model.load_state_dict({name: torch.tensor(arrays[name]) for name in arrays.files})
    np.testing.assert_array_equal([row.probabilities for row in rows], forecasts(model, held.features))
    np.testing.assert_allclose([sum(row.probabilities or ()) for row in rows], 1.0)
    with pytest.raises(ValueError, match="exists already; give another --out, or --resume to continue it"):
        command.run(SETTINGS, out)
    further = replace(SETTINGS, reward="correctness", start=str(out), steps=1)
    begun = train(further, some, held, tmp_path)
    assert begun.state.history[0]["rps"] == summary["kept"]["rps"]
