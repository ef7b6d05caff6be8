"""The leaderboard: every score is recomputed from the forecast files, ranked, and printed."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmark.answers import Labels
from benchmark.comparison import ranks
from benchmark.data_access import DEFAULT_DATASET, available_tracks
from benchmark.forecasts import ForecastError, Forecasts, read_forecasts
from benchmark.metrics.catalogue import HEADLINES, METRICS
from benchmark.scoring import ScoreResult, labels_by_split, score_labels
from leaderboard.submission import REFERENCES, SUBMISSIONS, Skipped, Submission, find_submissions, why_unranked

RESAMPLES = 2000
GROUPS = ("competitors", "references", "retracted")
COLUMNS: Mapping[str, Sequence[str]] = {
    "pairs": ("ap_141", "auroc_141", "spearman", "rps", "rps_excess", "half_brier", "log_loss", "ece"),
    "eval": ("rps", "rps_excess", "half_brier", "log_loss", "ece", "ap_141", "spearman"),
    "pool": ("auc_best", "best@10", "spearman", "pairwise", "spearman_within_seed", "rps", "ece"),
}
FORMATS = ("text", "markdown", "csv")


def build_table(
    dataset: str = DEFAULT_DATASET,
    resamples: int = RESAMPLES,
    seed: int = 0,
    submissions: Path = SUBMISSIONS,
    tracks: Iterable[str] | None = None,
    scored: Callable[[str, str], None] | None = None,
    skipped: Skipped | None = None,
) -> dict[str, Any]:
    """Return the table: settings, and one row for each submission, track and test split under `rows`.

    Rows are in order of track, split, group, rank, headline and name. `scored` is called with each submission's name
    and track once it is done. The first submission that breaks the rules raises SubmissionError or ForecastError,
    unless `skipped` is given: it is told the name and what is wrong, and the table is made of the others.
    """
    labels = {track: labels_by_split(track, dataset) for track in tracks or available_tracks(dataset)}
    entries = [s for s in find_submissions(submissions, skipped) if s.dataset == dataset]
    readable = _readable(entries, labels, dataset, skipped)
    rows: list[dict[str, Any]] = []
    for track, splits in labels.items():
        results: dict[str, list[tuple[Submission, ScoreResult]]] = {split: [] for split in splits}
        for entry, forecasts in readable:
            if track not in forecasts:
                continue
            for split, truth in splits.items():
                result = score_labels(forecasts[track], truth, track, split, dataset, resamples, seed, entry.name)
                results[split].append((entry, result))
            if scored:
                scored(entry.name, track)
        for split in splits:
            rows += _ranked_rows(results[split])
    return {
        "dataset": dataset,
        "resamples": resamples,
        "seed": seed,
        "headlines": dict(HEADLINES),
        "versions": {m.name: m.version for track in METRICS.values() for m in track.values() if m.version},
        "rows": rows,
    }


def _readable(
    entries: Sequence[Submission],
    labels: Mapping[str, Mapping[str, Labels]],
    dataset: str,
    skipped: Skipped | None,
) -> list[tuple[Submission, dict[str, Forecasts]]]:
    """Return the submissions with their forecasts by track; one with a broken file is left out as a whole."""
    known = {track: {i for one in splits.values() for i in one.query_id.tolist()} for track, splits in labels.items()}
    found = []
    for entry in entries:
        files = {track: path for track, path in entry.files.items() if track in labels}
        try:
            forecasts = {t: read_forecasts(path, known[t], dataset=dataset, track=t) for t, path in files.items()}
        except (ForecastError, OSError) as error:
            if skipped is None:
                raise
            skipped(entry.name, str(error))
            continue
        found.append((entry, forecasts))
    return found


def _ranked_rows(results: Sequence[tuple[Submission, ScoreResult]]) -> list[dict[str, Any]]:
    eligible = [r for s, r in results if why_unranked(s, r.coverage) is None]
    rank = dict(zip((r.name for r in eligible), ranks(eligible), strict=True))
    ceilings = [r for s, r in results if s.kind == "ceiling" and s.status != "retracted"]
    rows = []
    for entry, result in results:
        why = why_unranked(entry, result.coverage)
        if why is None and rank[result.name] is None:
            why = f"no headline figure: {result.headline.reason}"
        beats = entry.group == "competitors" and any(_badness(result) < _badness(ceiling) for ceiling in ceilings)
        rows.append({
            **result.to_dict(rank.get(result.name)),
            "group": entry.group,
            "kind": entry.kind,
            "information": entry.information,
            "status": entry.status,
            "description": entry.description,
            "command": entry.command,
            "training_data": entry.training_data,
            "unranked": why,
            "flag": "beats the noise ceiling" if beats else None,
        })  # fmt: skip
    badness = {result.name: _badness(result) for _, result in results}
    return sorted(rows, key=lambda row: _place(row, badness[row["name"]]))


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


def render(table: Mapping[str, Any], format: str = "text") -> str:
    """Return the table as aligned text, Markdown, or tidy CSV with one line for each figure.

    Raises ValueError for another format.
    """
    if format not in FORMATS:
        raise ValueError(f"unknown format '{format}'; expected one of {', '.join(FORMATS)}")
    if format == "csv":
        return _csv(table)
    if not table["rows"]:
        return f"No submission for dataset {table['dataset']}.\n"
    sections = []
    for track, split in dict.fromkeys((row["track"], row["split"]) for row in table["rows"]):
        rows = [row for row in table["rows"] if (row["track"], row["split"]) == (track, split)]
        sections.append(_section(table, track, split, rows, markdown=format == "markdown"))
    return "\n".join(sections)


def _section(
    table: Mapping[str, Any], track: str, split: str, rows: Sequence[Mapping[str, Any]], markdown: bool
) -> str:
    metrics = COLUMNS[track]
    head = ["rank", "name", "sees", *(f"{m} *" if m == HEADLINES[track] else m for m in metrics), "coverage"]
    lines: list[list[str]] = []
    notes = []
    for group in GROUPS:
        members = [row for row in rows if row["group"] == group]
        if members and lines:
            lines.append([])
        for row in members:
            # A line of text has room for one interval, the one of the figure that ranks.
            figures = [_figure(row["metrics"][m], interval=markdown or m == HEADLINES[track]) for m in metrics]
            rank = "-" if row["rank"] is None else str(row["rank"])
            lines.append([rank, row["name"], row["information"], *figures, f"{row['coverage']:.1%}"])
            if row["group"] == "competitors" and row["unranked"]:
                notes.append(f"{row['name']} is not ranked: {row['unranked']}.")
            if row["group"] == "retracted":
                notes.append(f"{row['name']} is {row['unranked']}.")
            if row["flag"]:
                notes.append(f"{row['name']} {row['flag']}.")
    reasons = {row["metrics"][HEADLINES[track]]["reason"] for row in rows} - {None}
    notes += [f"{HEADLINES[track]}: {reason}." for reason in sorted(reasons)]
    title = f"{table['dataset']}, track {track}, split {split}"
    # What everybody could get without looking is the same in every row.
    base, chance = (rows[0]["metrics"].get(m, {}).get("value") for m in ("base_rate_141", "ap_141_random"))
    if base is not None:
        title += f" (base rate {base:.3f}; ap_141 of a random order {chance:.3f})"
    intervals = f"* ranks. In brackets: 95% interval, {table['resamples']} cluster resamples, seed {table['seed']}."
    if markdown:
        cells = [head, ["---"] * len(head), *([*line] if line else [""] * len(head) for line in lines)]
        body = ["| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in cells]
        return "\n".join([f"### {title}", "", *body, "", intervals.replace("*", "\\*", 1), *notes, ""])
    filled = [head, *(line for line in lines if line)]
    width = [max(len(line[i]) for line in filled) for i in range(len(head))]
    body = ["  ".join(c.ljust(w) for c, w in zip(line, width, strict=False)).rstrip() for line in [head, *lines]]
    return "\n".join([title, *body, intervals, *notes, ""])


def _figure(value: Mapping[str, Any], interval: bool) -> str:
    if value["value"] is None:
        return "-"
    known = interval and value["low"] is not None
    return f"{value['value']:.3f}" + (f" [{value['low']:.3f}, {value['high']:.3f}]" if known else "")


def _csv(table: Mapping[str, Any]) -> str:
    out = io.StringIO()
    keys = ("name", "dataset", "track", "split", "group", "kind", "information", "status", "rank", "coverage")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*keys, "metric", "value", "low", "high", "reason"])
    for row in table["rows"]:
        for metric, value in row["metrics"].items():
            writer.writerow([*(row[k] for k in keys), metric, *(value[k] for k in ("value", "low", "high", "reason"))])
    return out.getvalue()
