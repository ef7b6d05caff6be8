"""The table: a row for each submission, track and split, ranked, under one rule for who is ranked and shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.comparison import ranks
from benchmark.data_access import DEFAULT_DATASET
from benchmark.forecasts import Forecasts
from benchmark.metrics.catalogue import HEADLINES, METRICS
from benchmark.scoring import ScoreResult
from leaderboard.board import RESAMPLES, Board, Scored, score_board
from leaderboard.submission import REFERENCES, SUBMISSIONS, Skipped, Submission, standing

GROUPS = ("competitors", "references")
COLUMNS: Mapping[str, Sequence[str]] = {
    "pairs": ("ap_141", "auroc_141", "spearman", "rps", "rps_excess", "half_brier", "log_loss", "ece"),
    "eval": ("rps", "rps_excess", "half_brier", "log_loss", "ece", "ap_141", "spearman"),
    "pool": ("auc_best", "best@10", "spearman", "pairwise", "spearman_within_seed", "rps", "ece"),
}


def build_table(
    dataset: str = DEFAULT_DATASET,
    resamples: int = RESAMPLES,
    seed: int = 0,
    submissions: Path = SUBMISSIONS,
    tracks: Iterable[str] | None = None,
    scored: Scored | None = None,
    skipped: Skipped | None = None,
) -> dict[str, Any]:
    """Score a folder of submissions and return the table; arguments and errors as for `score_board`."""
    return table_of(score_board(dataset, resamples, seed, submissions, tracks, scored, skipped))


def table_of(board: Board) -> dict[str, Any]:
    """Return the table: settings, and one row for each submission, track and test split under `rows`.

    Rows are in order of track, split, group, rank, headline and name. Retracted submissions have no row; their names
    and reasons are under `retracted`.
    """
    rows: list[dict[str, Any]] = []
    for track, split in board.places:
        rows += _ranked_rows(board, track, split)
    return {
        "dataset": board.dataset,
        "revision": board.revision,
        "resamples": board.resamples,
        "seed": board.seed,
        "headlines": dict(HEADLINES),
        "versions": {m.name: m.version for track in METRICS.values() for m in track.values() if m.version},
        "rows": rows,
        "retracted": [{"name": s.name, "reason": s.reason} for s in board.retracted],
    }


def _ranked_rows(board: Board, track: str, split: str) -> list[dict[str, Any]]:
    results = board.results[track, split]
    places = {name: standing(board.entries[name].submission, r.coverage) for name, r in results.items()}
    eligible = [result for name, result in results.items() if places[name].ranked]
    rank = dict(zip((r.name for r in eligible), ranks(eligible), strict=True))
    ceilings = [r for name, r in results.items() if board.entries[name].submission.kind == "ceiling"]
    rows = []
    for name, result in results.items():
        entry, place = board.entries[name], places[name]
        why = place.reason
        if place.ranked and rank[name] is None:
            why = f"no headline figure: {result.headline.reason}"
        flags = []
        if place.group == "competitors" and any(_badness(result) < _badness(ceiling) for ceiling in ceilings):
            flags.append("beats the noise ceiling")
        if entry.submission.revision != board.revision:
            flags.append(f"made for revision {entry.submission.revision} of the dataset, which is now {board.revision}")
        rows.append({
            **result.to_dict(rank.get(name)),
            "group": place.group,
            **described(entry.submission),
            **usage(entry.forecasts[track]),
            "unranked": why,
            "flag": "; ".join(flags) or None,
        })  # fmt: skip
    badness = {name: _badness(result) for name, result in results.items()}
    return sorted(rows, key=lambda row: _place(row, badness[row["name"]]))


def described(submission: Submission) -> dict[str, str | None]:
    """Return what a row says of its submission, apart from what every row says already."""
    names = (
        "kind", "information", "status", "description", "command", "training_data", "cost", "contamination", "revision",
        "contact",
    )  # fmt: skip
    return {name: getattr(submission, name) for name in names}


def usage(forecasts: Forecasts) -> dict[str, float | None]:
    """Return what a forecast file says that a forecast took: mean seconds and tokens; None where it says nothing."""

    def mean(values: Any) -> float | None:
        given = values[~np.isnan(values)]
        return float(given.mean()) if len(given) else None

    return {name: mean(getattr(forecasts, name)) for name in ("seconds", "input_tokens", "output_tokens")}


def _badness(result: ScoreResult) -> float:
    """The headline turned so that lower is better; infinite when undefined."""
    value = result.headline.value
    if value is None:
        return float("inf")
    return -value if METRICS[result.track][HEADLINES[result.track]].better == "higher" else value


def _place(row: Mapping[str, Any], badness: float) -> tuple[int, int, float, float, str]:
    kind = REFERENCES.index(row["kind"]) if row["group"] == "references" else 0
    rank = float("inf") if row["rank"] is None else row["rank"]
    return GROUPS.index(row["group"]), kind, rank, badness, row["name"]
