"""What the figures of a submission show, as numbers: reliability, risk-coverage, recovery and discovery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmark.answers import Answers, Labels, align
from benchmark.forecasts import Forecasts
from benchmark.metrics.corp import LEVEL, reliability_curve
from benchmark.metrics.discovery import precision_recall_curve
from benchmark.metrics.ranking import FRACTIONS, recovered_fractions
from benchmark.metrics.selective import risk_coverage_curve
from benchmark.metrics.tally import Floats, Ints
from benchmark.records import TAUS

HEADLINE_TAU = "141"
COUNT_BINS = 10
BUDGETS = np.union1d(np.geomspace(0.01, 1.0, 25), FRACTIONS)  # shares of a pool


@dataclass(frozen=True)
class Curve:
    """A line through `x` and `y`, both of shape (n,). `role` is own, chance or best."""

    label: str
    x: Floats
    y: Floats
    role: str = "own"


@dataclass(frozen=True)
class Band:
    """An area between `low` and `high` over `x`, all of shape (n,)."""

    label: str
    x: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Chart:
    """One figure. The x axis runs from `x_start`, 0 or else on a log scale, to 1, and the y axis from 0 to `y_end`.

    `counts` are numbers of rows in equal parts of the x axis. Without curves, `note` says why there is nothing to draw.
    """

    key: str
    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve] = ()
    band: Band | None = None
    counts: Ints | None = None
    x_start: float = 0.0
    y_end: float = 1.0
    note: str = ""


def charts_of(forecasts: Forecasts, labels: Labels, track: str) -> list[Chart]:
    """Return the figures of a submission's first repeat on a track and split, in the order in which they are shown."""
    answers = align(forecasts, int(forecasts.repeat.min()), labels)
    if track == "pool":
        return [recovery(answers, labels), reliability(answers), risk_coverage(answers, labels)]
    return [discovery(answers, labels), reliability(answers), risk_coverage(answers, labels)]


_RELIABILITY = Chart("reliability", "Reliability", "stated probability of the most probable bin", "observed frequency")
_RISK_COVERAGE = Chart(
    "risk-coverage", "Risk and coverage", "share of rows kept, the surest first", "share of wrong bins"
)
_RECOVERY = Chart(
    "recovery", "Recovered speedup", "share of the pool measured, in forecast order", "best found over the pool's best",
    x_start=float(BUDGETS[0]),
)  # fmt: skip
_DISCOVERY = Chart("discovery", "Discovery of S > √2", "recall", "precision")


def _empty(chart: Chart, reason: str) -> Chart:
    return replace(chart, note=f"Nothing to draw: {reason}.")


def reliability(answers: Answers) -> Chart:
    """Return the recalibrated against the stated probability of the most probable bin (CORP), with counts and band."""
    scored = ~np.isnan(answers.confidence)
    if not scored.any():
        return _empty(_RELIABILITY, "no answered row has a speedup")
    found = reliability_curve(answers.confidence[scored], answers.correct[scored])
    counts, _ = np.histogram(answers.confidence[scored], bins=COUNT_BINS, range=(0.0, 1.0))
    diagonal = np.array([0.0, 1.0])
    return replace(
        _RELIABILITY,
        curves=[
            Curve("calibrated", diagonal, diagonal, "chance"),
            Curve("forecasts", found.probability, found.recalibrated),
        ],
        band=Band(f"{LEVEL:.0%} of calibrated forecasters", found.probability, found.low, found.high),
        counts=counts.astype(np.int64),
        note="Isotonic fit; bars count rows. The band takes rows as independent.",
    )


def risk_coverage(answers: Answers, labels: Labels) -> Chart:
    """Return the share of wrong most probable bins among the surest rows, against the share of rows kept.

    As in the figures of the table, a row without a forecast is the least sure, and has the penalty as its risk.
    """
    measured = labels.measured
    if not measured.any():
        return _empty(_RISK_COVERAGE, "no row has a speedup")
    risk = answers.risk[measured]
    coverage, own = risk_coverage_curve(answers.surety[measured], risk)
    _, best = risk_coverage_curve(-risk, risk)
    return replace(
        _RISK_COVERAGE,
        curves=[
            Curve("any order", np.array([0.0, 1.0]), np.full(2, risk.mean()), "chance"),
            Curve("best order", coverage, best, "best"),
            Curve("by confidence", coverage, own),
        ],
        y_end=float(min(1.0, np.ceil(max(own.max(), 0.1) * 10) / 10)),
    )


def recovery(answers: Answers, labels: Labels) -> Chart:
    """Return the best speedup found over the pool's best, against the share of the pool measured; mean over pools."""
    pools = [labels.task == t for t in range(len(labels.tasks))]
    pools = [pool for pool in pools if labels.measured[pool].any()]
    if not pools:
        return _empty(_RECOVERY, "no kernel of any pool has a speedup")
    own, chance = np.zeros(len(BUDGETS)), np.zeros(len(BUDGETS))
    for pool in pools:
        # As in the figures of the table: a second measurement counts where all of the pool has one.
        whole = not np.isnan(labels.second[pool & labels.measured]).any()
        second = labels.second[pool] if whole else None
        found = recovered_fractions(answers.key[pool], labels.speedup[pool], BUDGETS.tolist(), second)
        own, chance = own + found[0], chance + found[1]
    return replace(
        _RECOVERY,
        curves=[
            Curve("random order", BUDGETS, chance / len(pools), "chance"),
            Curve("forecast order", BUDGETS, own / len(pools)),
        ],
        note=f"Mean over {len(pools)} pools.",
    )


def discovery(answers: Answers, labels: Labels) -> Chart:
    """Return precision against recall of the rows with S > sqrt 2, in forecast order, all tasks together."""
    positive = labels.speedup[labels.measured] > TAUS[HEADLINE_TAU]
    if not positive.any():
        return _empty(_DISCOVERY, "no row has S > √2")
    _, precision, recall = precision_recall_curve(answers.above[HEADLINE_TAU][labels.measured], positive)
    ends = np.array([0.0, 1.0])
    return replace(
        _DISCOVERY,
        curves=[
            Curve("base rate", ends, np.full(2, positive.mean()), "chance"),
            Curve("forecast order", np.concatenate([[0.0], recall]), np.concatenate([precision[:1], precision])),
        ],
        note="Rows of all tasks together; the figure that ranks is a mean over tasks.",
    )
