"""All figures of one task, for the rows as they are and for resamples of their searches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmark.answers import Answers, Bools, Labels
from benchmark.metrics import calibration, discovery, ranking
from benchmark.metrics.bootstrap import nan_mean
from benchmark.metrics.catalogue import TOP_FRACTION, fraction_name
from benchmark.metrics.tally import Floats, Ints, once
from benchmark.metrics.value import Value
from benchmark.records import TAUS

LEAST_DESCENDANTS = 3


def calibration_bins(answers: Answers) -> Mapping[str, Ints]:
    """Return the equal-width and equal-mass bin of each row's confidence, -1 where there is none.

    Bins are made once for the whole split, so that all tasks and resamples share them.
    """
    scored = ~np.isnan(answers.confidence)
    bins = {}
    for name, function in (("ece", calibration.equal_width_bin), ("ece_mass", calibration.equal_mass_bin)):
        bins[name] = np.full(len(scored), -1, dtype=np.int64)
        bins[name][scored] = function(answers.confidence[scored])
    return bins


def pair_figures(
    labels: Labels, answers: Answers, bins: Mapping[str, Ints], rows: Ints, multiplicity: Ints
) -> dict[str, Floats]:
    """Return each figure of the pairs track, shape (m,), or (m, bins) for a binned one, for one task.

    `rows` are the task's rows and `multiplicity`, shape (m, len(rows)), how often each occurs in each resample. Failed
    children have no speedup: they count for coverage and `p_fail`, not as missed discoveries.
    """
    measured = labels.measured[rows]
    kept, weight = rows[measured], multiplicity[:, measured]
    figures = _calibration_figures(labels, answers, bins, rows, multiplicity)
    speedup = labels.speedup[kept]
    figures["spearman"] = ranking.spearman_resampled(answers.key[kept], speedup, weight)
    for tau, threshold in TAUS.items():
        score, positive = answers.above[tau][kept], speedup > threshold
        resolved = (labels.low[kept] > threshold) | (labels.high[kept] < threshold)
        tally = discovery.Tally.of(score, positive, weight)
        clear = discovery.Tally.of(score[resolved], positive[resolved], weight[:, resolved])
        figures[f"ap_{tau}"] = discovery.average_precision_resampled(tally)
        figures[f"ap_{tau}_random"] = discovery.random_average_precision_resampled(tally)
        figures[f"ap_{tau}_resolved"] = discovery.average_precision_resampled(clear)
        figures[f"auroc_{tau}"] = discovery.auroc_resampled(tally)
        figures[f"lift_{tau}"] = discovery.lift_resampled(tally, TOP_FRACTION)
        figures[f"base_rate_{tau}"] = discovery.base_rate_resampled(tally)
    return figures


def pool_figures(labels: Labels, answers: Answers, bins: Mapping[str, Ints], rows: Ints) -> dict[str, Floats]:
    """Return each figure of the pool track, shape (1,), or (1, bins) for a binned one, for one task's pool."""
    figures = _calibration_figures(labels, answers, bins, rows, once(len(rows)))
    measured = rows[labels.measured[rows]]
    key, speedup = answers.key[rows], labels.speedup[rows]
    values = {
        "auc_best": ranking.recovered_area(key, speedup),
        "recall@10": ranking.top_k_recall(key, speedup, ranking.budget(0.1, len(rows)))
        if len(measured)
        else Value(None, reason="no speedup"),
        "pairwise": ranking.pairwise_accuracy(answers.key[measured], labels.low[measured], labels.high[measured]),
        "kendall": ranking.kendall(answers.key[measured], labels.speedup[measured]),
        "spearman": ranking.spearman(answers.key[measured], labels.speedup[measured]),
    }
    for fraction in ranking.FRACTIONS:
        values[fraction_name(fraction)] = ranking.recovered_fraction(key, speedup, fraction)
    for name, value in values.items():
        figures[name] = np.array([np.nan if value.value is None else value.value])
    within = [
        ranking.spearman_resampled(answers.key[group], labels.speedup[group], once(len(group)))
        for group in (measured[labels.seed[measured] == seed] for seed in np.unique(labels.seed[measured]))
        if len(group) >= LEAST_DESCENDANTS
    ]
    figures["spearman_within_seed"] = nan_mean(np.stack(within)) if within else np.array([np.nan])
    return figures


def _calibration_figures(
    labels: Labels, answers: Answers, bins: Mapping[str, Ints], rows: Ints, multiplicity: Ints
) -> dict[str, Floats]:
    measured = labels.measured[rows]
    names = list(answers.losses)
    losses = np.stack([answers.losses[name][rows] for name in names], axis=1)
    figures = dict(zip(names, _weighted_mean(losses, measured, multiplicity).T, strict=True))
    scored = ~np.isnan(answers.confidence[rows])
    figures["entropy"] = _weighted_mean(answers.entropy[rows][:, None], scored, multiplicity)[:, 0]
    kept = rows[scored]
    for name, index in bins.items():
        figures[name] = calibration.calibration_gaps(
            answers.confidence[kept], answers.correct[kept], index[kept], multiplicity[:, scored]
        )
    figures.update(_failure_figures(labels, answers, rows, multiplicity))
    return figures


def _failure_figures(labels: Labels, answers: Answers, rows: Ints, multiplicity: Ints) -> dict[str, Floats]:
    if answers.p_fail is None:
        return {name: np.full(len(multiplicity), np.nan) for name in ("fail_auroc", "fail_half_brier")}
    answered = answers.answered[rows]
    kept, weight = rows[answered], multiplicity[:, answered]
    failed = ~labels.measured[kept]
    loss = (answers.p_fail[kept] - failed) ** 2
    return {
        "fail_auroc": discovery.auroc_resampled(discovery.Tally.of(answers.p_fail[kept], failed, weight)),
        "fail_half_brier": _weighted_mean(loss[:, None], np.ones(len(kept), dtype=bool), weight)[:, 0],
    }


def _weighted_mean(values: Floats, include: Bools, multiplicity: Ints) -> Floats:
    """Return the mean over the included rows of each column, shape (m, columns); NaN where no row is left."""
    weight = multiplicity[:, include].astype(np.float64)
    total = weight.sum(axis=1, keepdims=True)
    sums = weight @ values[include]
    mean: Floats = np.divide(sums, total, out=np.full(sums.shape, np.nan), where=total > 0)
    return mean
