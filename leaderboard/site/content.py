"""What the page says, as plain values in print: figures through the one formatter, in the order of the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from benchmark.metrics.catalogue import METRICS, Metric
from leaderboard import notation
from leaderboard.board import Board
from leaderboard.render import Section, sections
from leaderboard.site.submission_content import BIN_LABELS, SEES, figure_in_print, submission_content
from leaderboard.table import table_of

GROUP_TITLES = {"competitors": "Competitors", "references": "For scale, not ranked"}
BETTER = {"higher": "higher is better", "lower": "lower is better", "none": "describes, does not judge"}


def page_content(board: Board) -> dict[str, Any]:
    """Return everything that the page shows, apart from the kernel browser."""
    table = table_of(board)
    rows = {(row["name"], row["track"], row["split"]): row for row in table["rows"]}
    names = sorted({row["name"] for row in table["rows"]}, key=str.casefold)
    submissions = [submission_content(board, name, rows) for name in names]
    return {
        "dataset": board.dataset,
        "revision": board.revision,
        "resamples": board.resamples,
        "seed": board.seed,
        "tracks": list(dict.fromkeys(track for track, _ in board.places)),
        "splits": list(dict.fromkeys(split for _, split in board.places)),
        "information": [(key, SEES[key]) for key in SEES if any(r["information"] == key for r in table["rows"])],
        "tables": [_table(section) for section in sections(table)],
        "glossary": _glossary(dict.fromkeys(track for track, _ in board.places)),
        "submissions": submissions,
        "axes": {
            c["axes"][0]: c["axes"][1]
            for s in submissions
            for t in s["tracks"]
            for p in t["places"]
            for c in p["charts"]
        },
        "columns": sorted({column for section in sections(table) for column in section.metrics}),
        "bins": BIN_LABELS,
    }


def _table(section: Section) -> dict[str, Any]:
    figures = [r["metrics"][section.headline] for group in section.groups.values() for r in group]
    ends = [v for f in figures for v in (f["value"], f["low"], f["high"]) if v is not None]
    span = (min(ends), max(ends)) if ends else (0.0, 1.0)
    return {
        "id": f"{section.track}-{section.split}",
        "track": section.track,
        "split": section.split,
        "title": section.title,
        "headline": section.headline,
        "columns": [
            {"name": m, "title": METRICS[section.track][m].title, "better": METRICS[section.track][m].better}
            for m in section.metrics
        ],
        "groups": [
            {
                "key": group,
                "title": GROUP_TITLES[group],
                "rows": [_row(row, section, span) for row in members],
            }
            for group, members in section.groups.items()
        ],
        "notes": section.notes,
    }


def _row(row: Mapping[str, Any], section: Section, span: tuple[float, float]) -> dict[str, Any]:
    return {
        "name": row["name"],
        "rank": notation.rank(row["rank"]),
        "information": row["information"],
        "unranked": row["unranked"],
        "flag": row["flag"],
        "figures": [figure_in_print(row["metrics"][m]) for m in section.metrics],
        "whisker": _whisker(row["metrics"][section.headline], span),
        "coverage": notation.share(row["coverage"]),
        "coverage_value": row["coverage"],
    }


def _whisker(figure: Mapping[str, Any], span: tuple[float, float]) -> dict[str, float] | None:
    """Return where the headline and its interval lie between the least and the greatest of the table, in percent."""
    if figure["value"] is None or figure["low"] is None or span[0] == span[1]:
        return None

    def at(value: float) -> float:
        return round(100 * (value - span[0]) / (span[1] - span[0]), 1)

    return {
        "at": at(figure["value"]),
        "low": at(figure["low"]),
        "width": round(at(figure["high"]) - at(figure["low"]), 1),
    }


def _glossary(tracks: Iterable[str]) -> list[dict[str, Any]]:
    """Return the meaning of every figure of the tracks, once, by family."""
    meaning: dict[str, Metric] = {}
    for track in tracks:
        for metric in METRICS[track].values():
            meaning.setdefault(metric.name, metric)
    return [
        {
            "family": family,
            "entries": [
                {"name": m.name, "title": m.title, "better": BETTER[m.better]}
                for m in meaning.values()
                if m.family == family
            ],
        }
        for family in dict.fromkeys(m.family for m in meaning.values())
    ]
