"""Compare submissions pairwise on shared bootstrap draws, and rank them by what the data can tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmark.aggregation import UNDEFINED_DRAWS
from benchmark.metrics.bootstrap import LEAST_CLUSTERS, holm, paired_p_value, percentile_interval
from benchmark.metrics.catalogue import HEADLINES, METRICS
from benchmark.metrics.tally import Floats
from benchmark.metrics.value import Value
from benchmark.scoring import ScoreResult

LEAST_COVERAGE = 0.95  # under this share of answered queries a submission has no rank


@dataclass(frozen=True)
class Difference:
    """The first submission's figure minus the second's, with its 95% interval and two-sided p-value.

    `first_is_better` says on which side the difference falls, whichever direction of the metric is good; it is False
    for equal figures and None for a figure that does not judge. Without an interval the p-value is None too and
    `reason` says why. `task` is None for the mean over tasks.
    """

    metric: str
    value: float | None
    low: float | None
    high: float | None
    p_value: float | None
    first_is_better: bool | None
    reason: str | None = None
    task: str | None = None
    first: float | None = None
    second: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, safe for strict JSON."""
        return asdict(self)


def compare(first: ScoreResult, second: ScoreResult, metric: str | None = None) -> Difference:
    """Return the paired difference on a metric, by default the track's headline.

    Both results must come from the same dataset, track, split, resamples and seed, so that resample r holds the same
    tasks and searches for both. Raises ValueError otherwise, and for a metric that has no better direction.
    """
    _require_alike(first, second)
    name = metric or HEADLINES[first.track]
    if name not in METRICS[first.track] or METRICS[first.track][name].better == "none":
        raise ValueError(f"'{name}' does not judge forecasts on track '{first.track}'")
    return _mean_difference(first, second, name)


def differences(first: ScoreResult, second: ScoreResult) -> list[Difference]:
    """Return the paired difference on every metric of the track, in the order of its catalogue; raises as `compare`."""
    _require_alike(first, second)
    return [_mean_difference(first, second, name) for name in METRICS[first.track]]


def task_differences(first: ScoreResult, second: ScoreResult) -> list[Difference]:
    """Return the paired differences on every metric within each task, task by task; searches are resampled.

    Raises as `compare` does, and ValueError for results that were scored without `keep_draws`.
    """
    _require_alike(first, second)
    a, b = first.task_draws, second.task_draws
    if a is None or b is None:
        raise ValueError("differences within tasks need results scored with keep_draws=True")
    found = []
    for task, searches in zip(a.tasks, a.searches, strict=True):
        for name in METRICS[first.track]:
            values = first.per_task[task][name], second.per_task[task][name]
            paired = None
            if name in a.metrics and searches >= LEAST_CLUSTERS and first.track != "pool":
                paired = a.replicates(name, task) - b.replicates(name, task)
            found.append(_difference(first.track, name, *values, paired, searches, task))
    return found


def _require_alike(first: ScoreResult, second: ScoreResult) -> None:
    for what in ("dataset", "track", "split", "resamples", "seed", "queries"):
        a, b = getattr(first, what), getattr(second, what)
        if a != b:
            raise ValueError(f"{first.name} and {second.name} differ in {what} ({a!r}, {b!r}), so cannot be compared")


def _mean_difference(first: ScoreResult, second: ScoreResult, name: str) -> Difference:
    a, b = first.metrics[name], second.metrics[name]
    paired = first.replicates[name] - second.replicates[name] if a.low is not None and b.low is not None else None
    return _difference(first.track, name, a, b, paired, first.clusters)


def _difference(
    track: str, name: str, a: Value, b: Value, paired: Floats | None, clusters: int, task: str | None = None
) -> Difference:
    """Return the difference of two values, from their paired replicates if there are any."""
    if a.value is None or b.value is None:
        reason = a.reason if a.value is None else b.reason
        return Difference(name, None, None, None, None, None, reason, task, a.value, b.value)
    value, better = a.value - b.value, METRICS[track][name].better
    won = None if better == "none" else value > 0 if better == "higher" else value < 0
    if paired is None:
        reason = a.reason if a.low is None else b.reason
        return Difference(name, value, None, None, None, won, reason, task, a.value, b.value)
    interval = percentile_interval(paired)
    if interval is None:
        return Difference(name, value, None, None, None, won, UNDEFINED_DRAWS, task, a.value, b.value)
    p_value = paired_p_value(paired, clusters)
    return Difference(name, value, *interval, p_value, won, None, task, a.value, b.value)


def ranks(results: Sequence[ScoreResult], metric: str | None = None) -> list[int | None]:
    """Return each submission's rank: 1 + the number of the others that are better by the paired bootstrap.

    A submission is compared with all others as one family (Holm, 5%). Submissions that the data cannot tell apart share
    a rank, and equal ones always do. None for an undefined figure, and for a submission that answers less than 95% of
    the queries: neither has a rank, nor a say in the ranks of others.
    """
    rankable = [
        result.coverage >= LEAST_COVERAGE and result.metrics[metric or HEADLINES[result.track]].value is not None
        for result in results
    ]
    places: list[int | None] = []
    for i, own in enumerate(results):
        if not rankable[i]:
            places.append(None)
            continue
        others = [compare(other, own, metric) for j, other in enumerate(results) if j != i and rankable[j]]
        tested = [d for d in others if d.p_value is not None]
        rejected = holm([d.p_value for d in tested if d.p_value is not None])
        places.append(1 + sum(yes and bool(d.first_is_better) for yes, d in zip(rejected, tested, strict=True)))
    return places
