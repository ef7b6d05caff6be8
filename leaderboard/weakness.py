"""What a submission does worst: the tasks, the classes of edits and the single forecasts that cost it most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmark.answers import Answers, Labels, align
from benchmark.bins import BINS
from benchmark.forecasts import Forecasts
from benchmark.metrics.catalogue import METRICS
from benchmark.scoring import ScoreResult

LOSS = "rps_excess"
SHOWN = 5


@dataclass(frozen=True)
class Part:
    """A task or class of edits: its rows with a label, its mean loss, and its share of the split's summed loss.

    `bias` is the mean forecast minus the mean true bin: above 0 the forecasts are too fast.
    """

    name: str
    rows: int
    loss: float
    share: float
    bias: float | None


@dataclass(frozen=True)
class Miss:
    """One forecast: its query, its most probable bin and that bin's probability, and the measured speedup with its bin.

    Without an answer, `forecast_bin` and `probability` are None.
    """

    query_id: str
    task: str
    loss: float
    forecast_bin: int | None
    probability: float | None
    speedup: float
    bin: int


@dataclass(frozen=True)
class Weakness:
    """What costs most, the worst first; `loss` names the figure, of which less is better."""

    loss: str
    tasks: Sequence[Part]
    classes: Sequence[Part]
    misses: Sequence[Miss]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return asdict(self)


def weakness(forecasts: Forecasts, labels: Labels, shown: int = SHOWN) -> Weakness:
    """Return what the first repeat of a submission does worst by the ranked probability score above the least.

    Unlike the score itself the excess leaves out what no forecast can know, the noise of the label.
    """
    answers = align(forecasts, int(forecasts.repeat.min()), labels)
    loss = np.where(labels.measured, answers.losses[LOSS], 0.0)
    given = answers.probabilities
    tasks = np.asarray(labels.tasks)[labels.task]
    misses = [i for i in np.lexsort((labels.query_id, -loss)) if labels.measured[i] and loss[i] > 0][:shown]
    return Weakness(
        loss=LOSS,
        tasks=_parts(tasks, loss, given, answers, labels)[:shown],
        classes=_parts(labels.operator_class, loss, given, answers, labels)[:shown],
        misses=[_miss(int(i), float(loss[i]), given[i], labels) for i in misses],
    )


def _parts(names: np.ndarray, loss: np.ndarray, given: np.ndarray, answers: Answers, labels: Labels) -> list[Part]:
    numbers = np.array(BINS, dtype=float)
    expected, true = given @ numbers, labels.mass @ numbers
    total = loss.sum()
    found = []
    for name in np.unique(names[labels.measured]):
        rows = (names == name) & labels.measured
        if not name:
            continue
        answered = rows & answers.answered
        bias = float((expected - true)[answered].mean()) if answered.any() else None
        share = float(loss[rows].sum() / total) if total else 0.0
        found.append(Part(str(name), int(rows.sum()), float(loss[rows].mean()), share, bias))
    return sorted(found, key=lambda part: (-part.loss, part.name))


def _miss(row: int, loss: float, given: np.ndarray, labels: Labels) -> Miss:
    top = None if np.isnan(given).any() else int(given.argmax())
    return Miss(
        query_id=str(labels.query_id[row]),
        task=labels.tasks[labels.task[row]],
        loss=loss,
        forecast_bin=None if top is None else top + 1,
        probability=None if top is None else float(given[top]),
        speedup=float(labels.speedup[row]),
        bin=int(labels.hard[row].argmax()) + 1,
    )


def behind(own: ScoreResult, others: Sequence[ScoreResult], shown: int = SHOWN) -> list[Mapping[str, Any]]:
    """Return the figures in which a submission is furthest behind the best of the others, as a share of its own.

    Only figures that judge forecasts count. Each is {metric, value, best, by}; none where it is the best itself.
    """
    found = []
    for name, metric in METRICS[own.track].items():
        value = own.metrics[name].value
        rivals = [(o.metrics[name].value, o.name) for o in others]
        known = [(v, n) for v, n in rivals if v is not None]
        if metric.better == "none" or value is None or not known:
            continue
        sign = 1 if metric.better == "higher" else -1
        best, by = max(known, key=lambda one: (sign * one[0], one[1]))
        if sign * (best - value) > 0:
            scale = max(abs(best), abs(value))
            found.append((abs(best - value) / scale, {"metric": name, "value": value, "best": best, "by": by}))
    return [line for _, line in sorted(found, key=lambda one: (-one[0], one[1]["metric"]))[:shown]]
