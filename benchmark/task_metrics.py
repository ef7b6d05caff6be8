"""All figures of one task, for the rows as they are and for resamples of their searches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmark.answers import Answers, Labels
from benchmark.metrics import calibration, discovery, ranking, selective
from benchmark.metrics.bootstrap import nan_mean
from benchmark.metrics.catalogue import COVERAGES, TOP_FRACTION, WITHIN, coverage_name, fraction_name
from benchmark.metrics.tally import Draws, Floats, Ints, in_blocks
from benchmark.metrics.value import Value
from benchmark.records import TAUS

LEAST_DESCENDANTS = 3
WEIGHTED = ("rps", "half_brier", "log_loss")


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
    labels: Labels, answers: Answers, bins: Mapping[str, Ints], rows: Ints, draws: Draws
) -> dict[str, Floats]:
    """Return each figure of the pairs and eval tracks, shape (m,), or (m, bins) for a binned one, for one task.

    `rows` are the task's rows and `draws` its resamples. Failed children have no speedup: they count for coverage and
    `p_fail`, not as missed discoveries.
    """
    measured = labels.measured[rows]
    kept, drawn = rows[measured], draws.select(measured)
    figures = _calibration_figures(labels, answers, bins, rows, draws)
    figures.update(_weighted_figures(labels, answers, bins, kept, drawn))
    speedup = labels.speedup[kept]
    figures["spearman"] = ranking.spearman_resampled(answers.key[kept], speedup, drawn)
    within = [
        ranking.spearman_resampled(answers.key[kept[group]], speedup[group], drawn.select(group))
        for group in (np.flatnonzero(labels.seed[kept] == seed) for seed in np.unique(labels.seed[kept]))
        if len(group) >= LEAST_DESCENDANTS
    ]
    figures[f"spearman{WITHIN}"] = nan_mean(np.stack(within)) if within else np.full(len(draws), np.nan)
    for tau, threshold in TAUS.items():
        figures.update(_discovery_figures(labels, answers.above[tau], kept, drawn, tau, threshold))
    return figures


def _discovery_figures(
    labels: Labels, score: Floats, rows: Ints, draws: Draws, tau: str, threshold: float
) -> dict[str, Floats]:
    positive = labels.speedup[rows] > threshold
    resolved = (labels.low[rows] > threshold) | (labels.high[rows] < threshold)
    everything = discovery.ClusterCounts.of(score[rows], positive, draws)
    clear = discovery.ClusterCounts.of(score[rows][resolved], positive[resolved], draws.select(resolved))

    def evaluate(part: Draws) -> Floats:
        tally, sure = everything.drawn(part.weight), clear.drawn(part.weight)
        return np.stack(
            [
                discovery.average_precision_resampled(tally),
                discovery.random_average_precision_resampled(tally),
                discovery.average_precision_resampled(sure),
                discovery.auroc_resampled(tally),
                discovery.auroc_resampled(sure),
                discovery.precision_resampled(tally, TOP_FRACTION),
                discovery.recall_resampled(tally, TOP_FRACTION),
                discovery.lift_resampled(tally, TOP_FRACTION),
                discovery.base_rate_resampled(tally),
            ],
            axis=1,
        )

    names = (
        f"ap_{tau}", f"ap_{tau}_random", f"ap_{tau}_resolved", f"auroc_{tau}", f"auroc_{tau}_resolved",
        f"precision_{tau}", f"recall_{tau}", f"lift_{tau}", f"base_rate_{tau}",
    )  # fmt: skip
    return dict(zip(names, in_blocks(draws, everything.width, evaluate).T, strict=True))


def pool_figures(labels: Labels, answers: Answers, bins: Mapping[str, Ints], rows: Ints) -> dict[str, Floats]:
    """Return each figure of the pool track, shape (1,), or (1, bins) for a binned one, for one task's pool."""
    figures = _calibration_figures(labels, answers, bins, rows, Draws.sample(len(rows)))
    figures.update(_ranking_figures(labels, answers, rows))
    groups = [rows[labels.seed[rows] == seed] for seed in np.unique(labels.seed[rows])]
    within = [_ranking_figures(labels, answers, g) for g in groups if labels.measured[g].sum() >= LEAST_DESCENDANTS]
    for name in _ranking_figures(labels, answers, rows[:0]):
        found = [figures_of_seed[name] for figures_of_seed in within]
        figures[f"{name}{WITHIN}"] = nan_mean(np.stack(found)) if found else np.array([np.nan])
    return figures


def _ranking_figures(labels: Labels, answers: Answers, rows: Ints) -> dict[str, Floats]:
    """Return the ranking figures of some rows of a pool, each of shape (1,)."""
    measured = rows[labels.measured[rows]]
    key, speedup = answers.key[rows], labels.speedup[rows]
    # A second measurement of a part of the pool would compare two kinds of numbers.
    second = labels.second[rows] if not np.isnan(labels.second[measured]).any() else None
    values: dict[str, Value] = {
        "recall@10": ranking.top_k_recall(key, speedup, ranking.budget(0.1, len(rows)))
        if len(measured)
        else Value(None, reason=ranking.NO_SUCCESS),
        "pairwise": ranking.pairwise_accuracy(answers.key[measured], labels.low[measured], labels.high[measured]),
        "kendall": ranking.kendall(answers.key[measured], labels.speedup[measured]),
        "spearman": ranking.spearman(answers.key[measured], labels.speedup[measured]),
    }
    recovered = ranking.recovered_fractions(key, speedup, ranking.FRACTIONS, second)
    normalised = [ranking.normalised(found, chance) for found, chance in zip(*recovered, strict=True)]
    for fraction, found, norm in zip(ranking.FRACTIONS, recovered[0], normalised, strict=True):
        values[fraction_name(fraction)] = Value.of(float(found), ranking.NO_SUCCESS)
        values[f"{fraction_name(fraction)}_norm"] = norm
    values["auc_best"] = ranking.area_over_log(ranking.FRACTIONS, normalised)
    return {name: np.array([np.nan if v.value is None else v.value]) for name, v in values.items()}


def _calibration_figures(
    labels: Labels, answers: Answers, bins: Mapping[str, Ints], rows: Ints, draws: Draws
) -> dict[str, Floats]:
    measured = labels.measured[rows]
    names = list(answers.losses)
    losses = np.stack([answers.losses[name][rows[measured]] for name in names], axis=1)
    figures = dict(zip(names, draws.select(measured).mean(losses).T, strict=True))
    scored = ~np.isnan(answers.confidence[rows])
    kept, drawn = rows[scored], draws.select(scored)
    figures["entropy"] = drawn.mean(answers.entropy[kept])
    for name, index in bins.items():
        gaps = calibration.calibration_gaps(answers.confidence[kept], answers.correct[kept], index[kept], drawn)
        figures[name] = gaps
    figures["ece_class"] = calibration.classwise_gaps(answers.probabilities[kept], labels.mass[kept], drawn)
    figures.update(_selective_figures(answers, rows[measured], draws.select(measured)))
    figures.update(_failure_figures(labels, answers, rows, draws))
    return figures


def _selective_figures(answers: Answers, rows: Ints, draws: Draws) -> dict[str, Floats]:
    risk = answers.risk[rows]
    found = selective.selective_resampled(answers.surety[rows], risk, COVERAGES, draws)
    figures = {"aurc": found[:, 0], "aurc_excess": found[:, 1], "accuracy": 1 - draws.mean(risk)}
    figures.update({coverage_name(c): 1 - found[:, 2 + i] for i, c in enumerate(COVERAGES)})
    return figures


def _weighted_figures(
    labels: Labels, answers: Answers, bins: Mapping[str, Ints], rows: Ints, draws: Draws
) -> dict[str, Floats]:
    """Return the scores with each row weighing as much as the rows that it stands for; `rows` have a speedup."""
    losses = np.stack([answers.losses[name][rows] for name in WEIGHTED], axis=1)
    means = draws.mean(losses, labels.weight[rows])
    figures = {f"{name}_weighted": mean for name, mean in zip(WEIGHTED, means.T, strict=True)}
    scored = ~np.isnan(answers.confidence[rows])
    kept = rows[scored]
    figures["ece_weighted"] = calibration.calibration_gaps(
        answers.confidence[kept],
        answers.correct[kept],
        bins["ece"][kept],
        draws.select(scored),
        labels.weight[kept],
    )
    return figures


def _failure_figures(labels: Labels, answers: Answers, rows: Ints, draws: Draws) -> dict[str, Floats]:
    if answers.p_fail is None:
        return {name: np.full(len(draws), np.nan) for name in ("fail_auroc", "fail_half_brier")}
    answered, failed = answers.answered[rows], ~labels.measured[rows]
    given = answers.p_fail[rows][answered]
    tally = discovery.Tally.of(given, failed[answered], draws.select(answered))
    # As for the other proper scores: a missing one gets the worse of the even forecast and the own mean on the task.
    own = (given - failed[answered]) ** 2
    loss = np.full(len(rows), max(0.25, own.mean()) if len(own) else 0.25)
    loss[answered] = own
    return {"fail_auroc": discovery.auroc_resampled(tally), "fail_half_brier": draws.mean(loss)}
