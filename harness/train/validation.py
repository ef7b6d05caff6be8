"""How a policy does on the validation split while it is trained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmark.bins import Floats
from benchmark.metrics.calibration import (
    entropy,
    expected_calibration_error,
    half_brier,
    log_loss,
    ranked_probability_score,
    top_label,
)
from benchmark.metrics.order import expected_log2
from benchmark.metrics.ranking import spearman
from harness.train.rewards import Reward
from harness.train.rows import Rows

LEAST_ROWS = 3  # of a task and track, for a correlation


def objective(forecast: Floats, rows: Rows, reward: Reward | None) -> float:
    """Return what a run maximises, on these rows: its reward, or minus the log loss when it is supervised."""
    values = -log_loss(forecast, rows.mass) if reward is None else reward(forecast, rows.mass)
    return float(np.average(values, weights=rows.weight))


def measures(forecast: Floats, rows: Rows) -> dict[str, float | None]:
    """Return accuracy, ECE, half-Brier, RPS and entropy over the rows, and the mean Spearman over tracks and tasks."""
    confidence, correct = top_label(forecast, rows.mass)
    return {
        "accuracy": float(correct.mean()),
        "ece": expected_calibration_error(confidence, correct).value,
        "half_brier": float(half_brier(forecast, rows.mass).mean()),
        "rps": float(ranked_probability_score(forecast, rows.mass).mean()),
        "spearman": _mean_spearman(forecast, rows),
        "entropy": float(entropy(forecast).mean()),
    }


def _mean_spearman(forecast: Floats, rows: Rows) -> float | None:
    groups: dict[tuple[str, str], list[int]] = {}
    for i, query in enumerate(rows.queries):
        groups.setdefault((query.track, query.task), []).append(i)
    key = expected_log2(forecast)
    found = [spearman(key[g], rows.log2[g]).value for g in groups.values() if len(g) >= LEAST_ROWS]
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if known else None


def said(row: dict[str, float | None], names: Sequence[str] = ("rps", "ece", "spearman")) -> str:
    """Return measures as words; an undefined one is a dash."""
    shown = {"rps": "RPS", "ece": "ECE", "spearman": "Spearman"}
    return ", ".join(
        f"{shown.get(name, name)} {'-' if (value := row[name]) is None else f'{value:.3f}'}" for name in names
    )
