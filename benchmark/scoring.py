"""Score a forecast file: macro means over tasks, with intervals from the cluster bootstrap."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.aggregation import Figures, TaskDraws, aggregate, fixed_values
from benchmark.answers import Answers, Labels, align
from benchmark.forecasts import Forecasts, check_made_for, read_forecasts
from benchmark.metrics.bootstrap import draw, nan_mean
from benchmark.metrics.catalogue import HEADLINES, METRICS
from benchmark.metrics.tally import Draws, Floats, Ints
from benchmark.metrics.value import Value
from benchmark.query import OFFLINE_TRACKS, TEST_SPLITS
from benchmark.split_metrics import corp_figures, permutation_figures
from benchmark.task_metrics import calibration_bins, pair_figures, pool_figures


@dataclass(frozen=True)
class ScoreResult:
    """A submission's figures on one track and split.

    `coverage` is the share of queries with a usable forecast, the mean over repeats. `clusters` is the number of units
    that the bootstrap draws: searches, or whole pools. `per_task[task][metric]` has an
    interval where the task has at least three searches. `replicates[metric]`, shape (resamples,), are the bootstrap
    values: results on the same labels, resamples and seed share their draws and can be compared pairwise. So can tasks
    with `task_draws`, which are kept on request.
    """

    name: str
    dataset: str
    track: str
    split: str
    coverage: float
    queries: int
    repeats: int
    clusters: int
    resamples: int
    seed: int
    metrics: Mapping[str, Value]
    per_task: Mapping[str, Mapping[str, Value]] = field(repr=False)
    replicates: Mapping[str, Floats] = field(repr=False, compare=False)
    task_draws: TaskDraws | None = field(default=None, repr=False, compare=False)

    @property
    def headline(self) -> Value:
        """The figure that ranks on this track."""
        return self.metrics[HEADLINES[self.track]]

    def to_dict(self, rank: int | None = None) -> dict[str, Any]:
        """Return one row of the table's JSON form; `rank` is known only beside other submissions."""
        return {
            "name": self.name,
            "dataset": self.dataset,
            "track": self.track,
            "split": self.split,
            "rank": rank,
            "coverage": self.coverage,
            "metrics": {name: value.to_dict() for name, value in self.metrics.items()},
        }


def score(
    forecasts: str | os.PathLike[str] | Forecasts,
    track: str,
    split: str = "test",
    dataset: str | None = None,
    resamples: int = 1000,
    seed: int = 0,
    name: str | None = None,
) -> ScoreResult:
    """Score a forecast file, or forecasts already read, against the labels of a dataset, track and split.

    The file may cover the other test split too. Raises ForecastError for a file that breaks the rules or was made for
    another dataset or track, and ValueError for a track that is not scored offline.
    """
    from benchmark.data_access import DEFAULT_DATASET

    dataset = dataset or DEFAULT_DATASET
    check_track(track)
    labels = labels_of(track, split, dataset)
    if not isinstance(forecasts, Forecasts):
        others = labels_by_split(track, dataset, [s for s in TEST_SPLITS if s != split])
        known = set(labels.query_id.tolist()).union(*(other.query_id.tolist() for other in others.values()))
        forecasts = read_forecasts(forecasts, known, dataset=dataset, track=track)
    return score_labels(forecasts, labels, track, split, dataset, resamples, seed, name)


def check_track(track: str) -> None:
    """Raise ValueError unless forecasts are scored on this track."""
    if track not in OFFLINE_TRACKS:
        raise ValueError(f"track '{track}' is not scored from forecasts; expected one of {', '.join(OFFLINE_TRACKS)}")


def labels_of(track: str, split: str, dataset: str) -> Labels:
    """Load the labels of a dataset, track and split as arrays."""
    from benchmark.data_access import load_labels

    return Labels.from_table(load_labels(track, split, dataset=dataset))


def labels_by_split(track: str, dataset: str, splits: Iterable[str] = TEST_SPLITS) -> dict[str, Labels]:
    """Load the labels of those splits in which the dataset has rows of the track."""
    from benchmark.data_access import DataError, load_labels

    found = {}
    for split in splits:
        try:
            table = load_labels(track, split, dataset=dataset)
        except DataError:  # the dataset does not have this split
            continue
        if table.num_rows:
            found[split] = Labels.from_table(table)
    return found


def score_labels(
    forecasts: Forecasts,
    labels: Labels,
    track: str,
    split: str,
    dataset: str,
    resamples: int = 1000,
    seed: int = 0,
    name: str | None = None,
    keep_draws: bool = False,
) -> ScoreResult:
    """Score forecasts against labels that are already loaded; see `score`. `keep_draws` fills `task_draws`."""
    from threadpoolctl import threadpool_limits

    check_track(track)
    check_made_for(forecasts.metadata, forecasts.source, dataset, track)
    rows = [np.flatnonzero(labels.task == t) for t in range(len(labels.tasks))]
    # A pool is one draw: its figures compare kernels of all searches with each other.
    clusters = [np.zeros(len(r), dtype=np.int64) if track == "pool" else _codes(labels.search[r]) for r in rows]
    searches = tuple(int(c.max()) + 1 for c in clusters)
    plan = draw(searches, resamples, seed)
    weights = [np.concatenate([np.ones((1, m.shape[1])), m]) for m in plan.multiplicities]
    draws = [Draws(cluster, weight) for cluster, weight in zip(clusters, weights, strict=True)]
    repeats = sorted(set(forecasts.repeat.tolist()))
    by_repeat, once, coverage = [], [], []
    with threadpool_limits(1, "blas"):  # the products are small: a second thread waits more than it works
        for repeat in repeats:
            answers = align(forecasts, repeat, labels)
            coverage.append(float(answers.answered.mean()))
            bins = calibration_bins(answers)
            by_repeat.append([_figures(labels, answers, bins, r, d, track) for r, d in zip(rows, draws, strict=True)])
            fixed = corp_figures(labels, answers, rows)
            once.append(fixed if track == "pool" else fixed | permutation_figures(labels, answers, rows, seed))
        catalogue = METRICS[track]
        resampled = [metric for metric in catalogue.values() if metric.resampled]
        found = aggregate(resampled, by_repeat, labels.tasks, searches, plan, whole_tasks=track == "pool")
    metrics, replicates = dict(found.metrics), dict(found.replicates)
    per_task = {task: dict(values) for task, values in found.per_task.items()}
    for key, metric in catalogue.items():
        if not metric.resampled:
            values = nan_mean(np.stack([figures[key] for figures in once]))
            metrics[key], of_task = fixed_values(metric, values, labels.tasks)
            for task, value in of_task.items():
                per_task[task][key] = value
            replicates[key] = np.full(resamples, np.nan)
    return ScoreResult(
        name=name or forecasts.metadata.get("surrogate") or Path(forecasts.source).stem,
        dataset=dataset,
        track=track,
        split=split,
        coverage=float(np.mean(coverage)),
        queries=len(labels),
        repeats=len(repeats),
        clusters=sum(searches),
        resamples=resamples,
        seed=seed,
        metrics={key: metrics[key] for key in catalogue},
        per_task={task: {key: values[key] for key in catalogue} for task, values in per_task.items()},
        replicates=replicates,
        task_draws=found.draws if keep_draws else None,
    )


def _figures(
    labels: Labels, answers: Answers, bins: Mapping[str, Ints], rows: Ints, draws: Draws, track: str
) -> Figures:
    if track != "pool":
        return pair_figures(labels, answers, bins, rows, draws)
    one = pool_figures(labels, answers, bins, rows)
    return {key: np.repeat(value, len(draws), axis=0) for key, value in one.items()}


def score_by_class(
    forecasts: Forecasts, labels: Labels, track: str, split: str, dataset: str, resamples: int = 0, seed: int = 0
) -> dict[str, ScoreResult]:
    """Score the rows of each operator class by themselves, as `score_labels` does; rows without one are left out."""
    classes = [str(c) for c in np.unique(labels.operator_class) if c]
    return {
        name: score_labels(
            forecasts, labels.select(labels.operator_class == name), track, split, dataset, resamples, seed, name
        )
        for name in classes
    }


def _codes(values: Ints) -> Ints:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)
