"""From the figures of each task to those of a split: macro means, their bootstrap replicates, and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmark.metrics.bootstrap import (
    LEAST_CLUSTERS,
    Resamples,
    interval_of_counts,
    mean_over_tasks,
    nan_mean,
    percentile_interval,
)
from benchmark.metrics.catalogue import Metric
from benchmark.metrics.tally import Floats
from benchmark.metrics.value import Value

UNDEFINED_DRAWS = "undefined in most resamples, no interval"
NOT_RESAMPLED = "made once for the whole split, no interval"
NO_RESAMPLES = "no resamples, no interval"
ONE_POOL = "whole pools are resampled, so that one pool has no interval"

Figures = Mapping[str, Floats]  # of one task: each figure, (1 + draws,) or (1 + draws, bins), the task itself in front


@dataclass(frozen=True)
class TaskDraws:
    """The figures of each task in each distinct draw of its searches, from which its intervals come.

    `values[task]`, shape (1 + draws, metrics), has the task as it is in front; `plan` says how often each draw occurs.
    """

    tasks: tuple[str, ...]
    searches: tuple[int, ...]
    metrics: tuple[str, ...]
    plan: Resamples
    values: Sequence[Floats]

    def replicates(self, metric: str, task: str) -> Floats:
        """Return a task's figure in every resample that draws the task, in order."""
        t = self.tasks.index(task)
        members = self.plan.members[self.plan.tasks == t]
        drawn: Floats = self.values[t][1 + members, self.metrics.index(metric)]
        return drawn


@dataclass(frozen=True)
class Aggregate:
    """The figures of a split and of its tasks: values, replicates of shape (resamples,), and the draws behind them."""

    metrics: Mapping[str, Value]
    per_task: Mapping[str, Mapping[str, Value]]
    replicates: Mapping[str, Floats]
    draws: TaskDraws


def aggregate(
    metrics: Sequence[Metric],
    repeats: Sequence[Sequence[Figures]],
    tasks: tuple[str, ...],
    searches: tuple[int, ...],
    plan: Resamples,
    whole_tasks: bool = False,
) -> Aggregate:
    """Average the resampled figures repeats[repeat][task] over tasks, then over repeats.

    `searches` counts the clusters of each task; `whole_tasks` says that tasks are drawn whole, so that a single one has
    no interval. Parts of a binned figure are averaged over tasks before their absolute values are summed.
    """
    names = tuple(metric.name for metric in metrics)
    points, drawn, by_task = [], [], []
    defined = np.zeros((len(tasks), len(metrics)), dtype=bool)
    for figures in repeats:
        columns = [np.concatenate([_columns(of_task[name]) for name in names], axis=1) for of_task in figures]
        widths = [_columns(figures[0][name]).shape[1] for name in names]
        sample = np.stack([c[0] for c in columns])
        points.append(_summed(nan_mean(sample)[None], metrics, widths)[0])
        drawn.append(_summed(mean_over_tasks([c[1:] for c in columns], plan), metrics, widths))
        by_task.append([_summed(c, metrics, widths) for c in columns])
        defined |= ~np.isnan(np.stack([summed[0] for summed in by_task[-1]]))
    replicates, point = nan_mean(np.stack(drawn)), nan_mean(np.stack(points))
    few = f"fewer than {LEAST_CLUSTERS} clusters to resample, no interval" if sum(searches) < LEAST_CLUSTERS else None
    values = {}
    for i, metric in enumerate(metrics):
        interval, why = _interval(replicates[:, i], few)
        values[metric.name] = value_of(metric, float(point[i]), interval, partial_mean(metric, defined[:, i]), why)
    own = [nan_mean(np.stack([of_repeat[t] for of_repeat in by_task])) for t in range(len(tasks))]
    draws = TaskDraws(tasks, searches, names, plan, own)
    per_task = {task: _task_values(metrics, draws, t, whole_tasks) for t, task in enumerate(tasks)}
    return Aggregate(values, per_task, {name: replicates[:, i] for i, name in enumerate(names)}, draws)


def _columns(values: Floats) -> Floats:
    return values[:, None] if values.ndim == 1 else values


def _summed(columns: Floats, metrics: Sequence[Metric], widths: Sequence[int]) -> Floats:
    """Return one column for each metric, (m, metrics), from its one column, or from the parts of a binned one."""
    starts = np.cumsum(widths) - widths
    out = columns[:, starts].copy()
    for i, metric in enumerate(metrics):
        if metric.binned:
            out[:, i] = np.abs(columns[:, starts[i] : starts[i] + widths[i]]).sum(axis=1)
    return out


def _interval(replicates: Floats, no_interval: str | None) -> tuple[tuple[float, float] | None, str | None]:
    """Return the interval, or why there is none."""
    if no_interval or not len(replicates):
        return None, no_interval or NO_RESAMPLES
    interval = percentile_interval(replicates)
    return interval, None if interval else UNDEFINED_DRAWS


def _task_values(metrics: Sequence[Metric], draws: TaskDraws, task: int, whole_tasks: bool) -> dict[str, Value]:
    values, searches = draws.values[task], draws.searches[task]
    counts = np.bincount(draws.plan.members[draws.plan.tasks == task], minlength=len(values) - 1).astype(np.int64)
    why = None
    if whole_tasks:
        why = ONE_POOL
    elif searches < LEAST_CLUSTERS:
        why = f"fewer than {LEAST_CLUSTERS} searches, no interval"
    elif not counts.sum():
        why = NO_RESAMPLES
    ends = interval_of_counts(values[1:], counts) if why is None else np.full((2, len(metrics)), np.nan)
    found = {}
    for i, metric in enumerate(metrics):
        known = None if np.isnan(ends[0, i]) else (float(ends[0, i]), float(ends[1, i]))
        found[metric.name] = value_of(metric, float(values[0, i]), known, None, why or UNDEFINED_DRAWS)
    return found


def partial_mean(metric: Metric, defined: npt.NDArray[np.bool_]) -> str | None:
    """Return over which part of the tasks a mean is, unless it is over all of them."""
    if defined.all():
        return None
    return f"mean of {defined.sum()} of {len(defined)} tasks; in the others {metric.undefined}"


def value_of(
    metric: Metric, point: float, interval: tuple[float, float] | None, remark: str | None, no_interval: str | None
) -> Value:
    """Return a figure with its interval and remark, or why it is undefined."""
    if np.isnan(point):
        return Value(None, reason=metric.undefined)
    reason = "; ".join(text for text in (remark, None if interval else no_interval) if text) or None
    low, high = interval or (None, None)
    return Value(point, low, high, reason)


def fixed_values(metric: Metric, values: Floats, tasks: Sequence[str]) -> tuple[Value, dict[str, Value]]:
    """Return a figure that is not resampled, of the split and of each task, from its values of shape (1 + tasks,)."""
    of_task = {t: value_of(metric, float(v), None, None, NOT_RESAMPLED) for t, v in zip(tasks, values[1:], strict=True)}
    remark = partial_mean(metric, ~np.isnan(values[1:]))
    return value_of(metric, float(values[0]), None, remark, NOT_RESAMPLED), of_task
