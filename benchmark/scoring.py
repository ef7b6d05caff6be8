"""Score a forecast file: macro means over tasks, with intervals from the cluster bootstrap."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.answers import Labels, align
from benchmark.forecasts import Forecasts, check_made_for, read_forecasts
from benchmark.metrics.bootstrap import (
    LEAST_CLUSTERS,
    Resamples,
    draw,
    mean_over_tasks,
    nan_mean,
    percentile_interval,
)
from benchmark.metrics.catalogue import HEADLINES, METRICS, Metric
from benchmark.metrics.tally import Floats, Ints, once
from benchmark.metrics.value import Value
from benchmark.query import OFFLINE_TRACKS, TEST_SPLITS
from benchmark.task_metrics import calibration_bins, pair_figures, pool_figures


@dataclass(frozen=True)
class ScoreResult:
    """A submission's figures on one track and split.

    `coverage` is the share of queries with a usable forecast, the mean over repeats. `clusters` is the number of units
    that the bootstrap draws: searches, or whole pools. `per_task[task][metric]` has an
    interval where the task has at least three searches. `replicates[metric]`, shape (resamples,), are the bootstrap
    values: results on the same labels, resamples and seed share their draws and can be compared pairwise.
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
) -> ScoreResult:
    """Score forecasts against labels that are already loaded; see `score`."""
    check_made_for(forecasts.metadata, forecasts.source, dataset, track)
    rows = [np.flatnonzero(labels.task == t) for t in range(len(labels.tasks))]
    # A pool is one draw: its figures compare kernels of all searches with each other.
    searches = [np.zeros(len(r), dtype=np.int64) if track == "pool" else _codes(labels.search[r]) for r in rows]
    plan = draw([int(s.max()) + 1 for s in searches], resamples, seed)
    repeats = sorted(set(forecasts.repeat.tolist()))
    catalogue = METRICS[track]
    coverage, by_repeat = [], []
    for repeat in repeats:
        answers = align(forecasts, repeat, labels)
        bins = calibration_bins(answers)
        coverage.append(float(answers.answered.mean()))
        tasks = []
        for r, s, multiplicities in zip(rows, searches, plan.multiplicities, strict=True):
            if track == "pool":
                one = pool_figures(labels, answers, bins, r)
                tasks.append({key: np.repeat(v, 1 + len(multiplicities), axis=0) for key, v in one.items()})
            else:
                weights = np.concatenate([once(len(r)), multiplicities[:, s]])
                tasks.append(pair_figures(labels, answers, bins, r, weights))
        by_repeat.append(tasks)
    metrics, per_task, replicates = {}, {t: dict[str, Value]() for t in labels.tasks}, {}
    counts = [int(s.max()) + 1 for s in searches]
    for key, metric in catalogue.items():
        values = [[tasks[t][key] for t in range(len(rows))] for tasks in by_repeat]
        metrics[key], replicates[key] = _macro(metric, values, plan, counts)
        for t, task in enumerate(labels.tasks):
            own = nan_mean(np.stack([_reduced(metric, v[t]) for v in values]))
            drawn = own[1 + plan.members[plan.tasks == t]]
            per_task[task][key] = _value(metric, float(own[0]), drawn, _why_no_interval(track, counts[t]), None)
    return ScoreResult(
        name=name or forecasts.metadata.get("surrogate") or Path(forecasts.source).stem,
        dataset=dataset,
        track=track,
        split=split,
        coverage=float(np.mean(coverage)),
        queries=len(labels),
        repeats=len(repeats),
        clusters=sum(counts),
        resamples=resamples,
        seed=seed,
        metrics=metrics,
        per_task=per_task,
        replicates=replicates,
    )


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


def _reduced(metric: Metric, values: Floats) -> Floats:
    return np.abs(values).sum(axis=-1) if metric.binned else values


def _macro(
    metric: Metric, values: Sequence[Sequence[Floats]], plan: Resamples, searches: Sequence[int]
) -> tuple[Value, Floats]:
    """Return the macro mean over tasks and its replicates; values[repeat][task] has the sample itself in row 0."""
    points, drawn, defined = [], [], np.zeros(len(searches), dtype=bool)
    for tasks in values:
        sample = np.stack([v[0] for v in tasks])
        defined |= ~np.isnan(sample.reshape(len(tasks), -1)).any(axis=1)
        points.append(_reduced(metric, nan_mean(sample)))
        drawn.append(_reduced(metric, mean_over_tasks([v[1:] for v in tasks], plan)))
    replicates = nan_mean(np.stack(drawn))
    few = f"fewer than {LEAST_CLUSTERS} clusters to resample, no interval" if sum(searches) < LEAST_CLUSTERS else None
    left_out = len(defined) - int(defined.sum())
    partial = f"mean of {defined.sum()} of {len(defined)} tasks; in the others {metric.undefined}" if left_out else None
    return _value(metric, float(nan_mean(np.array(points))), replicates, few, partial), replicates


def _why_no_interval(track: str, searches: int) -> str | None:
    if track == "pool":
        return "whole pools are resampled, so that one pool has no interval"
    return f"fewer than {LEAST_CLUSTERS} searches, no interval" if searches < LEAST_CLUSTERS else None


def _value(metric: Metric, point: float, replicates: Floats, no_interval: str | None, remark: str | None) -> Value:
    if np.isnan(point):
        return Value(None, reason=metric.undefined)
    interval = None
    if not len(replicates):
        no_interval = no_interval or "no resamples, no interval"
    elif no_interval is None:
        interval = percentile_interval(replicates)
        no_interval = None if interval else "undefined in most resamples, no interval"
    reason = "; ".join(text for text in (remark, no_interval) if text) or None
    low, high = interval or (None, None)
    return Value(point, low, high, reason)
