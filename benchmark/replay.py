"""The replay track: runs of a search on recorded trees, scored by how soon they find what the record holds.

A run is the list of kernels that it measured, in order. Their speedups come from the dataset, never from the run. A
recorded tree is all measured kernels of one task in one test split, of the searches grown for replay where the dataset
has such; a run may measure a fifth of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmark.aggregation import aggregate
from benchmark.forecasts import ForecastError, arrow_table
from benchmark.metrics.best_so_far import area_under_best, best_so_far, measurements_to
from benchmark.metrics.bootstrap import draw
from benchmark.metrics.catalogue import NO_RUNS, REPLAY
from benchmark.metrics.tally import Draws, Floats
from benchmark.metrics.value import Value
from benchmark.scoring import ScoreResult

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

COLUMNS = ("task", "run", "measurement", "kernel_id")
BUDGET_SHARE = 0.2

Runs = Mapping[str, Mapping[int, Sequence[str]]]  # task -> number of the run -> kernel ids in order of measurement


@dataclass(frozen=True)
class Tree:
    """The recorded kernels of one task in one split: kernel_id -> speedup, NaN where it failed."""

    task: str
    split: str
    speedup: Mapping[str, float]

    @property
    def budget(self) -> int:
        """How many measurements a run may spend."""
        return max(1, int(BUDGET_SHARE * len(self.speedup)))

    @property
    def best(self) -> float:
        """The best speedup on record; NaN without a success."""
        found = [s for s in self.speedup.values() if not np.isnan(s)]
        return max(found, default=float("nan"))


def load_trees(dataset: str, split: str) -> dict[str, Tree]:
    """Return the recorded trees of a split by task; those without a success are left out. Raises DataError."""
    from benchmark.data_access import load_table

    names = {"kernel_id", "task", "status", "speedup"}
    kernels = load_table("kernels", split, dataset, sorted(names)).to_pylist()
    nodes = load_table("nodes", split, dataset, ["kernel_id", "search_id"]).to_pylist()
    grown = _grown_for_replay(dataset)
    kept = {n["kernel_id"] for n in nodes if n["search_id"] in grown} or {n["kernel_id"] for n in nodes}
    speedups: dict[str, dict[str, float]] = {}
    for row in kernels:
        if row["kernel_id"] in kept:
            value = row["speedup"] if row["status"] == "ok" and row["speedup"] is not None else float("nan")
            speedups.setdefault(row["task"], {})[row["kernel_id"]] = value
    trees = [Tree(task, split, known) for task, known in sorted(speedups.items())]
    return {tree.task: tree for tree in trees if not np.isnan(tree.best)}


def _grown_for_replay(dataset: str) -> set[str]:
    """Return the searches whose parents were drawn independently of speed, if the dataset says so of any."""
    from benchmark.data_access import load_manifest, load_table

    if not any(name.startswith("searches/") for name in load_manifest(dataset)["files"]):
        return set()
    rows = load_table("searches", None, dataset, ["search_id", "replay_tree"]).to_pylist()
    return {row["search_id"] for row in rows if row["replay_tree"]}


def read_runs(path: str | os.PathLike[str]) -> Runs:
    """Read runs from a Parquet file of the columns task, run, measurement, kernel_id, or a folder of search logs.

    In a folder every `events.jsonl` is one run, numbered by its seed. Raises FileNotFoundError, and ForecastError.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = Path(path)
    if source.is_dir():
        return _runs_of_logs(source)
    if not source.is_file():
        raise FileNotFoundError(f"{source}: no such file or folder; `kernelcast search run --backend replay` makes one")
    try:
        table = pq.ParquetFile(source).read()
    except (pa.ArrowException, OSError) as error:
        raise ForecastError(f"{source}: not Parquet, or cut short ({' '.join(str(error).split())[:120]})") from None
    return runs_of(table, str(source))


def _runs_of_logs(folder: Path) -> Runs:
    from benchmark.event_log import find_logs, read_events

    runs: dict[str, dict[int, list[str]]] = {}
    for path in find_logs(folder):
        events, _ = read_events(path)
        config: Mapping[str, Any] = events[0].get("config", {}) if events else {}
        if not {"task", "seed"} <= set(config):
            raise ForecastError(f"{path}: not the log of a search; its first event has no task and seed")
        seeds = runs.setdefault(config["task"], {})
        if config["seed"] in seeds:
            raise ForecastError(f"{path}: a second run of task '{config['task']}' with seed {config['seed']}")
        seeds[config["seed"]] = [
            e["kernel_id"] for e in events if e["kind"] == "measured" and e.get("role", "candidate") == "candidate"
        ]
    if not runs:
        raise ForecastError(f"{folder}: holds no search log; `kernelcast search run --backend replay` writes them")
    return runs


def runs_of(data: pa.Table | pd.DataFrame | Mapping[str, Any], source: str = "runs") -> Runs:
    """Check a table of runs and return them; `measurement` counts from 1. Raises ForecastError by row and field."""
    table = arrow_table(data, source, COLUMNS)
    for name in COLUMNS:
        if name not in table.column_names:
            raise ForecastError(f"{source}: column '{name}' is missing; expected columns {', '.join(COLUMNS)}")
    for name in table.column_names:
        if name not in COLUMNS:
            raise ForecastError(f"{source}: unknown column '{name}'; expected columns {', '.join(COLUMNS)}")
    if not table.num_rows:
        raise ForecastError(f"{source}: no rows, expected one for each measurement")
    found: dict[tuple[str, int], dict[int, str]] = {}
    for row, (task, run, place, kernel) in enumerate(zip(*(table.column(c).to_pylist() for c in COLUMNS), strict=True)):
        for name, value, kind in (("task", task, str), ("run", run, int), ("measurement", place, int),
                                  ("kernel_id", kernel, str)):  # fmt: skip
            if not isinstance(value, kind):
                kinds = "text" if kind is str else "an integer"
                raise ForecastError(f"{source}, row {row}, field '{name}': found {value!r}, expected {kinds}")
        if place in found.setdefault((task, run), {}):
            raise ForecastError(f"{source}, row {row}: task '{task}', run {run} has measurement {place} already")
        found[task, run][place] = kernel
    runs: dict[str, dict[int, list[str]]] = {}
    for (task, run), places in found.items():
        if sorted(places) != list(range(1, len(places) + 1)):
            missing = next(k for k in range(1, len(places) + 1) if k not in places)
            raise ForecastError(f"{source}: task '{task}', run {run} has no measurement {missing}")
        runs.setdefault(task, {})[run] = [places[k] for k in sorted(places)]
    return runs


def check_runs(runs: Runs, trees: Mapping[str, Tree]) -> None:
    """Raise ForecastError unless every tree has a run and every run stays within its tree and budget."""
    for task in runs:
        if task not in trees:
            raise ForecastError(f"runs of task '{task}', which has no recorded tree; expected {', '.join(trees)}")
    for task, tree in trees.items():
        if not runs.get(task):
            raise ForecastError(f"no run of task '{task}'; every recorded tree needs one: {', '.join(trees)}")
        for run, kernels in runs[task].items():
            where = f"task '{task}', run {run}"
            if len(kernels) > tree.budget:
                raise ForecastError(f"{where}: {len(kernels)} measurements, expected at most {tree.budget}")
            seen: set[str] = set()
            for place, kernel in enumerate(kernels, 1):
                if kernel not in tree.speedup:
                    raise ForecastError(f"{where}, measurement {place}: kernel '{kernel}' is not in the recorded tree")
                if kernel in seen:
                    raise ForecastError(f"{where}, measurement {place}: kernel '{kernel}' was measured before")
                seen.add(kernel)


def score_runs(
    runs: Runs | None,
    trees: Mapping[str, Tree],
    split: str,
    dataset: str,
    resamples: int = 1000,
    seed: int = 0,
    name: str = "runs",
) -> ScoreResult:
    """Score runs on the recorded trees of a split: macro means over tasks of the means over runs.

    Tasks and runs are resampled. A run that does not reach 95% of the recorded best counts its whole budget. Without
    runs every figure is undefined. Raises ForecastError as `check_runs` does.
    """
    tasks = tuple(trees)
    if runs is None:
        none = {key: Value(None, reason=NO_RUNS) for key in REPLAY}
        nothing = {key: np.full(resamples, np.nan) for key in REPLAY}
        return ScoreResult(
            name, dataset, "replay", split, 0.0, _queries(trees), 0, 0, resamples, seed, none,
            {task: dict(none) for task in tasks}, nothing,
        )  # fmt: skip
    check_runs(runs, trees)
    figures = [np.stack([_run_figures(k, trees[task]) for _, k in sorted(runs[task].items())]) for task in tasks]
    counts = tuple(len(f) for f in figures)
    plan = draw(counts, resamples, seed)
    by_task = []
    for of_runs, multiplicities in zip(figures, plan.multiplicities, strict=True):
        weight = np.concatenate([np.ones((1, len(of_runs))), multiplicities])
        means = Draws(np.arange(len(of_runs)), weight).mean(of_runs)
        by_task.append(dict(zip(REPLAY, means.T, strict=True)))
    found = aggregate(list(REPLAY.values()), [by_task], tasks, counts, plan)
    return ScoreResult(
        name=name,
        dataset=dataset,
        track="replay",
        split=split,
        coverage=1.0,
        queries=_queries(trees),
        repeats=max(counts),
        clusters=sum(counts),
        resamples=resamples,
        seed=seed,
        metrics=found.metrics,
        per_task=found.per_task,
        replicates=found.replicates,
        task_draws=found.draws,
    )


def _queries(trees: Mapping[str, Tree]) -> int:
    return sum(tree.budget for tree in trees.values())


def _run_figures(kernels: Sequence[str], tree: Tree) -> Floats:
    """Return the figures of one run in the order of the catalogue."""
    speedup = np.array([tree.speedup[kernel] for kernel in kernels], dtype=np.float64)
    reached = measurements_to(speedup, tree.best, tree.budget)
    curve = best_so_far(speedup, tree.budget)
    area = area_under_best(speedup, tree.best, tree.budget)
    return np.array([reached.measurements, float(not reached.censored), area, curve[-1] / tree.best])
