"""`kernelcast evaluate --quick`: a newcomer beside the committed submissions, on a sample of the queries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

QUERIES = 100  # of each track, the first by their hashed ids over its test splits


def quick_table(files: Mapping[str, Path], manifest: Mapping[str, str]) -> dict[str, Any]:
    """Return figures without intervals and ranks of the newcomer and of every committed submission, on its rows alone.

    `files` are the newcomer's forecast files by track. Rows as in the table's JSON form, under `rows`.
    """
    from benchmark.forecasts import read_forecasts
    from benchmark.metrics.catalogue import HEADLINES
    from benchmark.scoring import labels_by_split, score_labels
    from harness.cli.standing import warn_skipped
    from leaderboard.submission import SUBMISSIONS, find_submissions

    dataset, name = manifest["dataset"], manifest["name"]
    others = [s for s in find_submissions(SUBMISSIONS, warn_skipped) if s.dataset == dataset and s.name != name]
    rows = []
    for track, path in files.items():
        newcomer = read_forecasts(path, dataset=dataset, track=track)
        asked = set(newcomer.query_id.tolist())
        entries = [(name, newcomer)]
        for other in others:
            if track in other.files:
                entries.append((other.name, read_forecasts(other.files[track], dataset=dataset, track=track)))
        for split, labels in labels_by_split(track, dataset).items():
            chosen = np.array([i in asked for i in labels.query_id.tolist()])
            if not chosen.any():
                continue
            sample = labels.select(chosen)
            for one, forecasts in entries:
                result = score_labels(forecasts, sample, track, split, dataset, resamples=0, name=one)
                rows.append({**result.to_dict(), "queries": len(sample)})
    return {"dataset": dataset, "newcomer": name, "headlines": dict(HEADLINES), "rows": rows}


def render_quick(table: Mapping[str, Any]) -> str:
    """Return the table as text, one section for each track and split, the best headline figure first."""
    from benchmark.metrics.catalogue import METRICS
    from leaderboard.table import COLUMNS

    sections = []
    for track, split in dict.fromkeys((row["track"], row["split"]) for row in table["rows"]):
        rows = [row for row in table["rows"] if (row["track"], row["split"]) == (track, split)]
        headline = table["headlines"][track]
        sign = -1 if METRICS[track][headline].better == "higher" else 1

        def badness(row: Mapping[str, Any], headline: str = headline, sign: int = sign) -> tuple[float, str]:
            value = row["metrics"][headline]["value"]
            return (float("inf") if value is None else sign * value, row["name"])

        lines = [["name", *(f"{m} *" if m == headline else m for m in COLUMNS[track])]]
        for row in sorted(rows, key=badness):
            mark = "> " if row["name"] == table["newcomer"] else "  "
            values = [row["metrics"][m]["value"] for m in COLUMNS[track]]
            lines.append([mark + row["name"], *("-" if v is None else f"{v:.3f}" for v in values)])
        width = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        body = ["  ".join(c.ljust(w) for c, w in zip(line, width, strict=True)).rstrip() for line in lines]
        title = f"{table['dataset']}, track {track}, split {split}, a sample of {rows[0]['queries']} queries"
        sections.append("\n".join([title, *body]))
    return "\n\n".join([*sections, "A sample tells coarse differences only; without --quick all queries are asked."])
