"""What a forecaster could read off a dataset without reading any code, and how far that would carry it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmark.metrics.bootstrap import draw, mean_over_tasks, percentile_interval
from benchmark.metrics.discovery import Tally, auroc_resampled
from benchmark.metrics.tally import Draws, Floats
from benchmark.records import TAUS
from benchmark.self_description import prose_characters

Row = Mapping[str, Any]
RESAMPLES = 2000
CHANCE_BAND = (0.45, 0.55)
# The first four must know nothing; the others are baselines that a learned surrogate has to beat.
LEAKS = ("order", "id", "comments", "anchor count")
BASELINES = ("length", "step")


def probe_scores(pairs: Sequence[Row], kernels: Mapping[str, Row], nodes: Sequence[Row]) -> dict[str, Floats]:
    """Return what each probe sees of each pair, shape (n,): higher is guessed to be faster."""
    anchors = Counter(pair["parent_id"] for pair in pairs)
    step = {(node["search_id"], node["kernel_id"]): node["step"] for node in reversed(nodes)}
    children = [kernels[pair["child_id"]]["code"] for pair in pairs]
    lengths = {k: len(row["code_view"]) for k, row in kernels.items()}
    return {
        "order": np.arange(len(pairs), dtype=np.float64),
        "id": np.array([int(pair["pair_id"][2:], 16) / 16**16 for pair in pairs]),
        "comments": np.array([float(prose_characters(code)) for code in children]),
        "anchor count": np.array([float(anchors[pair["child_id"]]) for pair in pairs]),
        "length": np.array([np.log(lengths[p["child_id"]] / max(lengths[p["parent_id"]], 1)) for p in pairs]),
        "step": np.array([float(step.get((p["search_id"], p["child_id"]), 0)) for p in pairs]),
    }


def probe_aurocs(pairs: Sequence[Row], scores: Mapping[str, Floats], seed: int = 0) -> dict[str, dict[str, Any]]:
    """Return {probe: {auroc, low, high, tasks}} for discoveries at sqrt 2, as means over tasks.

    The 95% interval is that of the two-stage cluster bootstrap; a value is None where no task has both classes.
    """
    ok = [i for i, pair in enumerate(pairs) if pair["speedup"] is not None]
    positive = np.array([pairs[i]["speedup"] > TAUS["141"] for i in ok], dtype=bool)
    task = np.array([pairs[i]["task"] for i in ok])
    search = np.array([pairs[i]["search_id"] for i in ok])
    rows_of = [np.flatnonzero(task == name) for name in np.unique(task)]
    clusters = [np.unique(search[rows], return_inverse=True)[1].reshape(-1) for rows in rows_of]
    plan = draw([int(c.max()) + 1 for c in clusters], RESAMPLES, seed)
    found: dict[str, dict[str, Any]] = {}
    for name, score in scores.items():
        seen = score[ok]
        plain, resampled = [], []
        for rows, cluster, weight in zip(rows_of, clusters, plan.multiplicities, strict=True):
            sample = auroc_resampled(Tally.of(seen[rows], positive[rows]))
            plain.append(float(sample[0]))
            draws = Draws(cluster.astype(np.int64), weight.astype(np.float64))
            resampled.append(auroc_resampled(Tally.of(seen[rows], positive[rows], draws)))
        defined = [value for value in plain if not np.isnan(value)]
        interval = percentile_interval(mean_over_tasks(resampled, plan)) if defined else None
        found[name] = {
            "auroc": float(np.mean(defined)) if defined else None,
            "low": interval and interval[0],
            "high": interval and interval[1],
            "tasks": len(defined),
        }
    return found


def at_chance(probe: Mapping[str, Any]) -> bool | None:
    """Return whether a probe's interval lies within 0.45 to 0.55, None where it has none."""
    if probe["low"] is None or probe["high"] is None:
        return None
    return bool(CHANCE_BAND[0] <= probe["low"] and probe["high"] <= CHANCE_BAND[1])
