"""What the kernel browser shows: every test pair with both sources, its measured speedup, and all forecasts of it."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np

from benchmark.answers import Labels
from benchmark.data_access import load_pairs
from benchmark.forecasts import Forecasts
from benchmark.metrics.tally import Floats
from leaderboard.board import Board

TRACK = "pairs"
PER_MILLE = 1000  # probabilities are shown with one decimal of a percent
_COLUMNS = (
    "pair_id", "task", "search_id", "parent_id", "child_id", "parent_code", "child_code", "child_status", "operator",
    "operator_class", "parent_us_geomean", "speedup", "speedup_low", "speedup_high", "bin",
)  # fmt: skip
_NAMED = ("task", "search_id", "operator", "operator_class", "child_status")  # few distinct values, stored by number


def browser_data(board: Board) -> dict[str, Any]:
    """Return the pairs of the test splits as columns, with distinct texts and sources by number.

    `label[i]` and each submission's `forecasts[name][i]` are eight probabilities per mille, or null without one.
    Speedups and times keep six digits: they are shown, and nothing is computed from them.
    """
    rows: list[dict[str, Any]] = []
    mass, given = [], {name: [] for name, entry in board.entries.items() if TRACK in entry.forecasts}
    for split, labels in board.labels.get(TRACK, {}).items():
        found = {row["pair_id"]: row for row in load_pairs(split, board.dataset, list(_COLUMNS)).to_pylist()}
        # Kernels of one search are alike: side by side they take a fraction of the space when compressed.
        order = sorted(range(len(labels)), key=lambda i: _near(found[str(labels.query_id[i])]))
        rows += [{**found[str(labels.query_id[i])], "split": split} for i in order]
        mass += [_per_mille(labels.mass[i]) if labels.measured[i] else None for i in order]
        for name, answers in given.items():
            p = _first_repeat(board.entries[name].forecasts[TRACK], labels)
            answers += [None if np.isnan(p[i]).any() else _per_mille(p[i]) for i in order]
    sources = {
        code: i for i, code in enumerate(dict.fromkeys(r[c] for r in rows for c in ("parent_code", "child_code")))
    }
    names: dict[str, dict[str | None, int]] = {c: {} for c in (*_NAMED, "split")}
    columns: dict[str, list[Any]] = {
        c: [table.setdefault(row[c], len(table)) for row in rows] for c, table in names.items()
    }
    for c in ("pair_id", "parent_id", "child_id", "bin"):
        columns[c] = [row[c] for row in rows]
    for c in ("parent_us_geomean", "speedup", "speedup_low", "speedup_high"):
        columns[c] = [None if row[c] is None else float(f"{row[c]:.6g}") for row in rows]
    for c in ("parent_code", "child_code"):
        columns[c] = [sources[row[c]] for row in rows]
    return {
        "pairs": columns,
        "names": {c: list(table) for c, table in names.items()},
        "sources": list(sources),
        "label": mass,
        "forecasts": given,
    }


def packed(data: dict[str, Any]) -> str:
    """Return data as base64 of gzipped JSON, the same text every time, which a page unpacks without a network."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _near(row: dict[str, Any]) -> tuple[str, ...]:
    return row["task"], row["search_id"], row["parent_id"], row["pair_id"]


def _per_mille(p: Floats) -> list[int]:
    return np.round(p * PER_MILLE).astype(int).tolist()  # type: ignore[no-any-return]


def _first_repeat(forecasts: Forecasts, labels: Labels) -> Floats:
    """Return the probabilities of the first repeat in the order of the labels, (n, 8), NaN where there is none."""
    p = np.full((len(labels), forecasts.probabilities.shape[1]), np.nan)
    rows = np.flatnonzero((forecasts.repeat == forecasts.repeat.min()) & (forecasts.status == "ok"))
    ids = forecasts.query_id[rows].astype(str)
    at = np.minimum(np.searchsorted(labels.query_id, ids), len(labels) - 1)
    known = labels.query_id[at] == ids
    p[at[known]] = forecasts.probabilities[rows[known]]
    return p
