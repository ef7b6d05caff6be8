"""The table in print: aligned text, Markdown, LaTeX, and tidy CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leaderboard import notation
from leaderboard.table import COLUMNS, GROUPS

FORMATS = ("text", "markdown", "csv", "latex")


@dataclass(frozen=True)
class Section:
    """One track and split: a title, the headline's name, the rows of each group that has any, and notes below."""

    title: str
    track: str
    split: str
    headline: str
    metrics: Sequence[str]
    groups: Mapping[str, Sequence[Mapping[str, Any]]]
    notes: Sequence[str]

    @property
    def head(self) -> list[str]:
        """The names of the columns; a star marks the one that ranks."""
        starred = [f"{m} *" if m == self.headline else m for m in self.metrics]
        return ["rank", "name", "sees", *starred, "coverage"]


def render(table: Mapping[str, Any], format: str = "text", mark: str | None = None) -> str:
    """Return the table as aligned text, Markdown, LaTeX, or tidy CSV with one line for each figure.

    Text marks the row of the submission `mark` with an arrow. Raises ValueError for another format.
    """
    if format not in FORMATS:
        raise ValueError(f"unknown format '{format}'; expected one of {', '.join(FORMATS)}")
    if format == "csv":
        return _csv(table)
    if not table["rows"]:
        return f"No submission for dataset {table['dataset']}.\n"
    intervals = f"* ranks. In brackets: 95% interval, {table['resamples']} cluster resamples, seed {table['seed']}."
    printed = []
    for section in sections(table):
        if format == "latex":
            printed.append(_latex(section, intervals))
        elif format == "markdown":
            printed.append(_markdown(section, intervals))
        else:
            printed.append(_text(section, intervals, mark))
    return "\n".join(printed)


def sections(table: Mapping[str, Any]) -> list[Section]:
    """Return the parts of a table, one for each track and split, in order."""
    found = []
    for track, split in dict.fromkeys((row["track"], row["split"]) for row in table["rows"]):
        rows = [row for row in table["rows"] if (row["track"], row["split"]) == (track, split)]
        groups = {group: [row for row in rows if row["group"] == group] for group in GROUPS}
        found.append(
            Section(
                title=f"{table['dataset']}, track {track}, split {split}{_chance(rows[0])}",
                track=track,
                split=split,
                headline=table["headlines"][track],
                metrics=COLUMNS[track],
                groups={group: members for group, members in groups.items() if members},
                notes=_notes(table, rows, table["headlines"][track]),
            )
        )
    return found


def _chance(row: Mapping[str, Any]) -> str:
    """What everybody could get without looking, which is the same in every row."""
    base, chance = (row["metrics"].get(m, {}).get("value") for m in ("base_rate_141", "ap_141_random"))
    if base is None:
        return ""
    return f" (base rate {notation.number(base)}; ap_141 of a random order {notation.number(chance)})"


def _notes(table: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], headline: str) -> list[str]:
    notes = []
    for row in rows:
        if row["group"] == "competitors" and row["unranked"]:
            notes.append(f"{row['name']} is not ranked: {row['unranked']}.")
    flags: dict[str, list[str]] = {}
    for row in rows:
        flags.setdefault(row["flag"], []).append(row["name"])
    for flag, names in flags.items():
        if flag:
            notes.append(f"{'Every row' if len(names) == len(rows) > 1 else ', '.join(names)}: {flag}.")
    notes += [f"{one['name']} is retracted: {one['reason']}." for one in table["retracted"]]
    reasons = {row["metrics"][headline]["reason"] for row in rows} - {None}
    return notes + [f"{headline}: {reason}." for reason in sorted(reasons)]


def cells(row: Mapping[str, Any], metrics: Sequence[str], with_interval: Sequence[str]) -> list[str]:
    """Return a row in print; the metrics named in `with_interval` carry their interval."""
    figures = [
        notation.with_interval(row["metrics"][m]) if m in with_interval else notation.number(row["metrics"][m]["value"])
        for m in metrics
    ]
    return [notation.rank(row["rank"]), row["name"], row["information"], *figures, notation.share(row["coverage"])]


def _text(section: Section, intervals: str, mark: str | None) -> str:
    lines: list[list[str]] = []
    marked = set()
    for members in section.groups.values():
        lines += [[]] if lines else []
        for row in members:
            if row["name"] == mark:
                marked.add(len(lines) + 1)
            # A line of text has room for one interval, the one of the figure that ranks.
            lines.append(cells(row, section.metrics, [section.headline]))
    filled = [section.head, *(line for line in lines if line)]
    width = [max(len(line[i]) for line in filled) for i in range(len(section.head))]
    body = [
        "  ".join(c.ljust(w) for c, w in zip(line, width, strict=False)).rstrip() for line in [section.head, *lines]
    ]
    if mark is not None:
        body = [("> " if i in marked else "  ") + line if line else "" for i, line in enumerate(body)]
    return "\n".join([section.title, *body, intervals, *section.notes, ""])


def _markdown(section: Section, intervals: str) -> str:
    head = section.head
    lines: list[list[str]] = [head, ["---"] * len(head)]
    for number, members in enumerate(section.groups.values()):
        lines += [[""] * len(head)] if number else []
        lines += [cells(row, section.metrics, section.metrics) for row in members]
    body = ["| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines]
    return "\n".join([f"### {section.title}", "", *body, "", intervals.replace("*", "\\*", 1), *section.notes, ""])


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {c: "\\" + c for c in "&%$#_{}"}


def _escaped(text: str) -> str:
    return re.sub(r"[\\~^&%$#_{}]", lambda found: _LATEX[found[0]], text)


def _latex(section: Section, intervals: str) -> str:
    """A booktabs table; the interval of each figure is set small behind it."""

    def figure(row: Mapping[str, Any], metric: str) -> str:
        value = row["metrics"][metric]
        text = notation.number(value["value"])
        text += f" {{\\scriptsize {notation.interval(value)}}}" if notation.interval(value) else ""
        return re.sub(r"-(?=\d)", "$-$", text)

    bodies = []
    for members in section.groups.values():
        lines = []
        for row in members:
            first, last = cells(row, [], []), notation.share(row["coverage"])
            line = [*map(_escaped, first[:3]), *(figure(row, m) for m in section.metrics), _escaped(last)]
            lines.append(" & ".join(line) + r" \\")
        bodies.append("\n".join(lines))
    notes = " ".join(_escaped(note) for note in [intervals, *section.notes])
    return "\n".join([
        r"\begin{table}", r"\centering", rf"\caption{{{_escaped(section.title)}. {notes}}}",
        rf"\begin{{tabular}}{{rll{'r' * (len(section.metrics) + 1)}}}", r"\toprule",
        " & ".join(map(_escaped, section.head)) + r" \\", r"\midrule", "\n\\midrule\n".join(bodies), r"\bottomrule",
        r"\end{tabular}", r"\end{table}", "",
    ])  # fmt: skip


def _csv(table: Mapping[str, Any]) -> str:
    out = io.StringIO()
    keys = ("name", "dataset", "track", "split", "group", "kind", "information", "status", "rank", "coverage")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*keys, "metric", "value", "low", "high", "reason"])
    for row in table["rows"]:
        for metric, value in row["metrics"].items():
            writer.writerow([*(row[k] for k in keys), metric, *(value[k] for k in ("value", "low", "high", "reason"))])
    return out.getvalue()
