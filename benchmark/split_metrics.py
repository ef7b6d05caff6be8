"""Figures that are fitted or permuted once on a whole split, and so have no bootstrap interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmark.answers import Answers, Labels
from benchmark.metrics.corp import rps_decomposition
from benchmark.metrics.discovery import Tally, average_precision_resampled
from benchmark.metrics.permutation import (
    PERMUTATIONS,
    average_precision_of,
    landing_rows,
    macro_p_value,
    permuted_places,
    share_at_least,
)
from benchmark.metrics.tally import Floats, Ints
from benchmark.records import TAUS

CORP_PARTS = ("miscalibration", "discrimination", "uncertainty")


def corp_figures(labels: Labels, answers: Answers, rows: Sequence[Ints]) -> dict[str, Floats]:
    """Return the CORP parts of the ranked probability score, shape (1 + tasks,): of the split, then of each task.

    Answered rows with a speedup only. The fit of the split gives every task the same weight, so that with all rows
    answered the parts add up to the macro mean of the score. NaN where there is no row.
    """
    scored = ~np.isnan(answers.confidence)
    kept = [r[scored[r]] for r in rows]
    share = np.zeros(len(labels))
    for r in kept:
        share[r] = 1 / max(len(r), 1)
    figures = {f"rps_{part}": np.full(1 + len(rows), np.nan) for part in CORP_PARTS}
    for place, r in enumerate([np.flatnonzero(scored), *kept]):
        if len(r):
            parts = rps_decomposition(answers.probabilities[r], labels.mass[r], share[r])
            for part in CORP_PARTS:
                figures[f"rps_{part}"][place] = getattr(parts, part)
    return figures


def permutation_figures(labels: Labels, answers: Answers, rows: Sequence[Ints], seed: int) -> dict[str, Floats]:
    """Return the permutation p-value of average precision at each threshold, shape (1 + tasks,), as `corp_figures`.

    Of the split, it is that of the macro mean: in every permutation each label moves within its search, the same at all
    thresholds. NaN where there is no positive row.
    """
    observed: dict[str, list[float]] = {tau: [] for tau in TAUS}
    drawn: dict[str, list[Floats]] = {tau: [] for tau in TAUS}
    for r in rows:
        kept = r[labels.measured[r]]
        search = labels.search[kept]
        places = permuted_places(search, PERMUTATIONS, seed)
        for tau, threshold in TAUS.items():
            score, positive = answers.above[tau][kept], labels.speedup[kept] > threshold
            observed[tau].append(float(average_precision_resampled(Tally.of(score, positive))[0]))
            drawn[tau].append(average_precision_of(score, landing_rows(score, positive, search, places)))
    return {
        f"ap_{tau}_p": np.array([
            macro_p_value(values, drawn[tau]),
            *(share_at_least(v, d) if not np.isnan(v) else np.nan for v, d in zip(values, drawn[tau], strict=True)),
        ])
        for tau, values in observed.items()
    }  # fmt: skip
