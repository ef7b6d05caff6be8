"""Compare submissions pairwise on shared bootstrap draws, and rank them by what the data can tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmark.metrics.bootstrap import holm, paired_p_value, percentile_interval
from benchmark.metrics.catalogue import HEADLINES, METRICS
from benchmark.scoring import ScoreResult


@dataclass(frozen=True)
class Difference:
    """The first submission's figure minus the second's, with its 95% interval and two-sided p-value.

    `first_is_better` says on which side the difference falls, whichever direction of the metric is good. Without an
    interval the p-value is None too and `reason` says why.
    """

    metric: str
    value: float | None
    low: float | None
    high: float | None
    p_value: float | None
    first_is_better: bool
    reason: str | None = None


def compare(first: ScoreResult, second: ScoreResult, metric: str | None = None) -> Difference:
    """Return the paired difference on a metric, by default the track's headline.

    Both results must come from the same dataset, track, split, resamples and seed, so that resample r holds the same
    tasks and searches for both. Raises ValueError otherwise, and for a metric that has no better direction.
    """
    for what in ("dataset", "track", "split", "resamples", "seed", "queries"):
        a, b = getattr(first, what), getattr(second, what)
        if a != b:
            raise ValueError(f"{first.name} and {second.name} differ in {what} ({a!r}, {b!r}), so cannot be compared")
    name = metric or HEADLINES[first.track]
    if name not in METRICS[first.track] or METRICS[first.track][name].better == "none":
        raise ValueError(f"'{name}' does not judge forecasts on track '{first.track}'")
    a, b = first.metrics[name], second.metrics[name]
    if a.value is None or b.value is None:
        return Difference(name, None, None, None, None, False, a.reason if a.value is None else b.reason)
    value = a.value - b.value
    better = value > 0 if METRICS[first.track][name].better == "higher" else value < 0
    if a.low is None or b.low is None:
        return Difference(name, value, None, None, None, better, a.reason if a.low is None else b.reason)
    replicates = first.replicates[name] - second.replicates[name]
    interval = percentile_interval(replicates)
    if interval is None:
        return Difference(name, value, None, None, None, better, "undefined in most resamples, no interval")
    return Difference(name, value, *interval, paired_p_value(replicates, first.clusters), better)


def ranks(results: Sequence[ScoreResult], metric: str | None = None) -> list[int | None]:
    """Return each submission's rank: 1 + the number of the others that are better by the paired bootstrap.

    A submission is compared with all others as one family (Holm, 5%). Submissions that the data cannot tell apart share
    a rank, and equal ones always do. None for an undefined figure.
    """
    places: list[int | None] = []
    for i, own in enumerate(results):
        if own.metrics[metric or HEADLINES[own.track]].value is None:
            places.append(None)
            continue
        others = [compare(other, own, metric) for j, other in enumerate(results) if j != i]
        tested = [d for d in others if d.p_value is not None]
        rejected = holm([d.p_value for d in tested if d.p_value is not None])
        places.append(1 + sum(yes and d.first_is_better for yes, d in zip(rejected, tested, strict=True)))
    return places
