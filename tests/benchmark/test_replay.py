"""The replay track: runs are looked up in the recorded trees, and refused when they could not have happened."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmark import Evaluator
from benchmark.comparison import compare, ranks
from benchmark.forecasts import ForecastError
from benchmark.metrics.catalogue import NO_RUNS, REPLAY
from benchmark.replay import Tree, load_trees, read_runs, runs_of, score_runs
from benchmark.scoring import ScoreResult

NAN = math.nan
# Twenty kernels: the best is k0; 19 / 2 is 95% of it.
TREE = Tree("norm", "test", {f"k{i}": (NAN if i % 7 == 3 else 10.0 / (1 + i / 19)) for i in range(20)})
OTHER = Tree("scan", "test", {f"s{i}": 1.0 + i for i in range(10)})
TREES = {"norm": TREE, "scan": OTHER}
RUNS = {"norm": {0: ["k3", "k5", "k1"], 1: ["k0"]}, "scan": {0: ["s1", "s2"]}}


def _score(runs: Any, resamples: int = 100, **options: Any) -> ScoreResult:
    return score_runs(runs, TREES, "test", "d", resamples, **options)


def test_a_tree_knows_its_best_and_its_budget() -> None:
    assert (TREE.best, TREE.budget, OTHER.best, OTHER.budget) == (10.0, 4, 10.0, 2)
    assert Tree("t", "test", {"a": NAN}).budget == 1


def test_figures_by_hand() -> None:
    result = _score(RUNS)
    # Run 0: a failure, then 7.9, then 9.5, which is the target; run 1 has the best at once. `scan` misses its target.
    norm = {name: value.value for name, value in result.per_task["norm"].items()}
    first = np.array([0.0, 10 / (1 + 5 / 19), 9.5, 9.5]) / 10
    assert norm["measurements_to_95"] == pytest.approx((3 + 1) / 2)
    assert norm["reached_95"] == 1.0
    assert norm["area_under_best"] == pytest.approx((first.mean() + 1.0) / 2)
    assert norm["best"] == pytest.approx((0.95 + 1.0) / 2)
    scan = {name: value.value for name, value in result.per_task["scan"].items()}
    assert scan == pytest.approx({"measurements_to_95": 2, "reached_95": 0, "area_under_best": 0.25, "best": 0.3})
    assert result.metrics["measurements_to_95"].value == pytest.approx(2.0)
    assert result.headline == result.metrics["measurements_to_95"]
    assert (result.coverage, result.clusters, result.queries) == (1.0, 3, 6)
    assert set(result.metrics) == set(REPLAY)


def test_without_runs_every_figure_is_null_with_a_reason_and_there_is_no_rank() -> None:
    result = _score(None)
    assert all(value.value is None and value.reason == NO_RUNS for value in result.metrics.values())
    assert ranks([result, _score(RUNS)]) == [None, 1]


def test_better_runs_compare_as_better() -> None:
    fast = {"norm": {s: ["k0"] for s in range(6)}, "scan": {s: ["s9"] for s in range(6)}}
    slow = {"norm": {s: ["k5", "k6"] for s in range(6)}, "scan": {s: ["s0", "s1"] for s in range(6)}}
    found = compare(_score(fast, name="fast"), _score(slow, name="slow"))
    assert found.first_is_better and (found.p_value or 1) < 0.05
    assert ranks([_score(slow, name="slow"), _score(fast, name="fast"), _score(fast, name="twin")]) == [3, 1, 1]


@pytest.mark.parametrize(("change", "message"), [
    ({"norm": {0: ["k0", "k1", "k2", "k4", "k5"]}}, "task 'norm', run 0: 5 measurements, expected at most 4"),
    ({"norm": {0: ["k0", "s0"]}}, "task 'norm', run 0, measurement 2: kernel 's0' is not in the recorded tree"),
    ({"norm": {0: ["k0", "k0"]}}, "measurement 2: kernel 'k0' was measured before"),
    ({"norm": {}}, "no run of task 'norm'; every recorded tree needs one: norm, scan"),
    ({"conv": {0: ["k0"]}}, "runs of task 'conv', which has no recorded tree; expected norm, scan"),
])  # fmt: skip
def test_runs_that_could_not_have_happened_are_refused(change: Any, message: str) -> None:
    with pytest.raises(ForecastError, match=message):
        _score({**RUNS, **change})


def _table(rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["task", "run", "measurement", "kernel_id"])


def test_a_table_of_runs_may_be_in_any_order() -> None:
    rows = [(t, r, i, k) for t, of in RUNS.items() for r, kernels in of.items() for i, k in enumerate(kernels, 1)]
    assert runs_of(_table(rows)) == runs_of(_table(rows[::-1])) == RUNS


@pytest.mark.parametrize(("rows", "message"), [
    ([("norm", 0, 1, "k0"), ("norm", 0, 1, "k1")], "row 1: task 'norm', run 0 has measurement 1 already"),
    ([("norm", 0, 1, "k0"), ("norm", 0, 3, "k1")], "task 'norm', run 0 has no measurement 2"),
    ([("norm", 0, 0, "k0")], "task 'norm', run 0 has no measurement 1"),
    ([("norm", 0, 1.5, "k0")], r"row 0, field 'measurement': found 1\.5, expected an integer"),
    ([("norm", 0, 1, None)], "row 0, field 'kernel_id': found None, expected text"),
    ([], "no rows"),
])  # fmt: skip
def test_a_table_that_is_no_set_of_runs_is_refused(rows: list[tuple[Any, ...]], message: str) -> None:
    with pytest.raises(ForecastError, match=message):
        runs_of(_table(rows))


def test_columns_are_checked() -> None:
    with pytest.raises(ForecastError, match="column 'kernel_id' is missing"):
        runs_of(_table([("norm", 0, 1, "k0")]).drop(columns="kernel_id"))
    with pytest.raises(ForecastError, match="unknown column 'speedup'"):
        runs_of(_table([("norm", 0, 1, "k0")]).assign(speedup=9.0))


def test_an_evaluator_scores_files_tables_and_search_logs_alike(synthetic_dataset: Path, tmp_path: Path) -> None:
    evaluator = Evaluator("synthetic", track="replay", resamples=50)
    assert "kernelcast search run --backend replay" in repr(evaluator) and "budget" in repr(evaluator)
    rows, logs = [], tmp_path / "logs"
    for split in evaluator.splits:
        for task, tree in load_trees("synthetic", split).items():
            for seed in range(3):
                kernels = sorted(tree.speedup)[seed : seed + tree.budget]
                rows += [(task, seed, i, kernel) for i, kernel in enumerate(kernels, 1)]
                folder = logs / f"{task}-{seed}"
                folder.mkdir(parents=True)
                events: list[dict[str, Any]] = [{"kind": "search_started", "config": {"task": task, "seed": seed}}]
                for kernel in kernels:
                    events.append({"kind": "measured", "role": "candidate", "kernel_id": kernel})
                    events.append({"kind": "measured", "role": "anchor", "kernel_id": kernels[0]})
                text = "".join(json.dumps({"index": i, **e}) + "\n" for i, e in enumerate(events))
                (folder / "events.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    frame = _table(rows)
    path = tmp_path / "runs.parquet"
    frame.to_parquet(path)
    found = [evaluator.evaluate(form, name="x") for form in (frame, path, logs)]
    assert found[0] == found[1] == found[2]
    assert found[0].unranked("test") is None
    assert len(found[0].to_dataframe()) == sum(1 + len(r.per_task) for r in found[0].results.values()) * len(REPLAY)
    with pytest.raises(ForecastError, match="which has no recorded tree"):
        evaluator.evaluate(frame.assign(task=[f"no-{t}" for t in frame.task]))
    with pytest.raises(FileNotFoundError, match="--backend replay"):
        read_runs(tmp_path / "absent.parquet")
    empty = evaluator.evaluate(None)
    assert NO_RUNS in str(empty.unranked("test"))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(ForecastError, match="not Parquet"):
        evaluator.evaluate(tmp_path / "bad.parquet")
