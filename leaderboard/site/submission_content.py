"""What the page says of one submission: what it is, where it stands, its figures, and what it does worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmark.bins import LABELS
from benchmark.metrics.catalogue import HEADLINES, METRICS
from benchmark.scoring import ScoreResult
from leaderboard import notation
from leaderboard.board import Board
from leaderboard.charts import Chart, charts_of
from leaderboard.site.svg import axes, axes_id, svg
from leaderboard.table import COLUMNS
from leaderboard.weakness import weakness

BIN_LABELS = [label.replace("<=", "≤") for label in LABELS]
FACTS = {
    "description": "What it is", "information": "What it sees", "kind": "Kind", "training_data": "Learned from",
    "contamination": "Contamination", "cost": "Cost, as stated", "status": "Status", "command": "Made by",
    "revision": "Dataset revision", "contact": "Contact",
}  # fmt: skip
SEES = {"source": "source", "compiled": "source and compiled facts", "measured": "a few measurements"}
STATUS = {
    "recomputed": "recomputed: scores are computed here from its forecasts",
    "reproduced": "reproduced: its forecasts were made again by the command below",
}


def figure_in_print(figure: Mapping[str, Any]) -> dict[str, Any]:
    """Return a figure as the page needs it: its text, its interval's, the number to sort by, and the reason."""
    return {
        "text": notation.number(figure["value"]),
        "interval": notation.interval(figure),
        "value": figure["value"],
        "reason": figure["reason"],
    }


def submission_content(
    board: Board, name: str, rows: Mapping[tuple[str, str, str], Mapping[str, Any]]
) -> dict[str, Any]:
    own = [rows[name, track, split] for track, split in board.places if (name, track, split) in rows]
    first = own[0]
    facts = {**first, "information": SEES[first["information"]], "status": STATUS[first["status"]]}
    return {
        "name": name,
        "information": first["information"],
        "facts": [(title, facts[key]) for key, title in FACTS.items() if facts[key]],
        "usage": [(row["track"], _usage(row)) for row in {row["track"]: row for row in own}.values() if _usage(row)],
        "tracks": [
            _track(board, name, track, [row for row in own if row["track"] == track])
            for track in dict.fromkeys(row["track"] for row in own)
        ],
    }


def _usage(row: Mapping[str, Any]) -> str:
    """Return what a forecast took, as the forecast file says: time and tokens, a mean over forecasts."""
    parts = [f"{row['seconds']:.3g} s"] if row["seconds"] is not None else []
    for key, word in (("input_tokens", "tokens read"), ("output_tokens", "tokens written")):
        parts += [f"{row[key]:.0f} {word}"] if row[key] is not None else []
    return ", ".join(parts)


def _place(board: Board, name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    track, split = row["track"], row["split"]
    result = board.results[track, split][name]
    forecasts, labels = board.entries[name].forecasts[track], board.labels[track][split]
    worst = weakness(forecasts, labels)
    return {
        "track": track,
        "split": split,
        "standing": f"rank {row['rank']}" if row["rank"] is not None else f"not ranked: {row['unranked']}",
        "flag": row["flag"],
        "headline": f"{HEADLINES[track]} {notation.with_reason(row['metrics'][HEADLINES[track]])}",
        "coverage": notation.share(row["coverage"]),
        "queries": result.queries,
        "charts": [
            {
                "key": chart.key,
                "title": chart.title,
                "svg": svg(chart, name) if chart.curves else "",
                "axes": (axes_id(chart), axes(chart)),
                "keys": _keys(chart),
                "note": chart.note,
            }
            for chart in charts_of(forecasts, labels, track)
        ],
        "columns": COLUMNS[track],
        "tasks": _tasks(result, COLUMNS[track]),
        "worst": {
            "loss": worst.loss,
            "tasks": [(p.name, p.rows, notation.number(p.loss), notation.share(p.share)) for p in worst.tasks],
            "classes": [(p.name, p.rows, notation.number(p.loss), notation.share(p.share)) for p in worst.classes],
            "misses": [
                {
                    "id": miss.query_id,
                    "task": miss.task,
                    "loss": notation.number(miss.loss),
                    "forecast": "no answer" if miss.forecast_bin is None
                    else f"{miss.probability:.0%} on {BIN_LABELS[miss.forecast_bin - 1]}",
                    "speedup": f"{miss.speedup:.3f}",
                }
                for miss in worst.misses
            ],
        },
    }  # fmt: skip


def _track(board: Board, name: str, track: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one track: a place for each split, then all figures by family with a column for each split."""
    reasons = list(dict.fromkeys(f["reason"] for row in rows for f in row["metrics"].values() if f["reason"]))
    catalogue = METRICS[track]

    def line(metric: str) -> dict[str, Any]:
        figures = [row["metrics"][metric] for row in rows]
        notes = [reasons.index(f["reason"]) + 1 if f["reason"] else None for f in figures]
        return {"name": metric, "figures": list(zip(map(figure_in_print, figures), notes, strict=True))}

    metrics = list(rows[0]["metrics"])
    return {
        "track": track,
        "splits": [row["split"] for row in rows],
        "places": [_place(board, name, row) for row in rows],
        "families": [
            (family, [line(m) for m in metrics if catalogue[m].family == family])
            for family in dict.fromkeys(catalogue[m].family for m in metrics)
        ],
        "reasons": list(enumerate(reasons, 1)),
    }


def _keys(chart: Chart) -> list[tuple[str, str]]:
    band = [("band", chart.band.label)] if chart.band else []
    return [(curve.role, curve.label) for curve in chart.curves] + band


def _tasks(result: ScoreResult, columns: Sequence[str]) -> list[tuple[str, list[dict[str, Any]]]]:
    return [
        (task, [figure_in_print(values[m].to_dict()) for m in columns])
        for task, values in sorted(result.per_task.items())
    ]
