"""The committed record of the table: `table.json` beside the submissions, and the block in the README."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leaderboard.render import render
from leaderboard.submission import SUBMISSIONS, SubmissionError

BEGIN, END = "<!-- table:begin -->", "<!-- table:end -->"
TOLERANCE = 1e-6  # other versions of the numerical libraries differ in the last bits
_SETTINGS = ("dataset", "revision", "resamples", "seed", "headlines", "versions", "retracted")


def record_path(submissions: Path = SUBMISSIONS) -> Path:
    """Return the file that records the table of a folder of submissions."""
    return submissions.with_name("table.json")


def readme_path(submissions: Path = SUBMISSIONS) -> Path:
    """Return the README that shows the table: the one of the checkout, two folders above."""
    return submissions.parents[1] / "README.md"


def write_record(table: Mapping[str, Any], submissions: Path = SUBMISSIONS) -> list[Path]:
    """Write the record of a table, and its block if there is a README that has one; return the files that changed."""
    head = {key: value for key, value in table.items() if key != "rows"}
    rows = ",\n".join(json.dumps(row, allow_nan=False) for row in table["rows"])
    # One line for each row, so that a difference names the rows that moved.
    text = json.dumps(head, indent=1, allow_nan=False).removesuffix("\n}") + f',\n "rows": [\n{rows}\n ]\n}}\n'
    wanted = {record_path(submissions): text}
    readme = readme_path(submissions)
    if readme.is_file() and _block(readme.read_text(encoding="utf-8")) is not None:
        wanted[readme] = with_block(readme.read_text(encoding="utf-8"), table)
    changed = []
    for path, content in wanted.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != content:
            partial = path.with_name(path.name + ".partial")
            partial.write_text(content, encoding="utf-8")
            os.replace(partial, path)
            changed.append(path)
    return changed


def with_block(readme: str, table: Mapping[str, Any]) -> str:
    """Return a README with the table in its block. Raises ValueError if it has no block."""
    if _block(readme) is None:
        raise ValueError(f"the README has no lines {BEGIN} and {END} to put the table between")
    before, _, rest = readme.partition(BEGIN)
    return f"{before}{BEGIN}\n```text\n{render(table).rstrip()}\n```\n{END}{rest.partition(END)[2]}"


def _block(readme: str) -> str | None:
    _, begin, rest = readme.partition(BEGIN)
    block, end, _ = rest.partition(END)
    return block if begin and end else None


def read_record(submissions: Path = SUBMISSIONS) -> dict[str, Any]:
    """Return the recorded table. Raises SubmissionError if there is none, or it is not one."""
    path = record_path(submissions)
    advice = "`kernelcast leaderboard --record` writes it"
    if not path.is_file():
        raise SubmissionError(f"{path}: no such file; {advice}")
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(table, dict) and all({"name", "track", "split", "metrics"} <= set(row) for row in table["rows"]):
            return table
    except (ValueError, KeyError, TypeError) as error:
        raise SubmissionError(f"{path}: not a recorded table ({error}); {advice}") from None
    raise SubmissionError(f"{path}: not a recorded table; {advice}")


def drift(recorded: Mapping[str, Any], table: Mapping[str, Any]) -> list[str]:
    """Return one line for everything in which a recomputed table differs from the recorded one."""
    lines = [
        f"{key}: recorded {recorded.get(key)}, now {table[key]}" for key in _SETTINGS if recorded.get(key) != table[key]
    ]
    before = {(row["name"], row["track"], row["split"]): row for row in recorded["rows"]}
    after = {(row["name"], row["track"], row["split"]): row for row in table["rows"]}
    for key in dict.fromkeys([*before, *after]):
        place = ", ".join(key)
        if key not in before or key not in after:
            lines.append(f"{place}: {'not recorded' if key not in before else 'recorded, and not in the table'}")
            continue
        lines += [f"{place}, {line}" for line in _row_drift(before[key], after[key])]
    if not lines and list(before) != list(after):
        lines.append("the rows stand in another order")
    return lines


def _row_drift(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    names = [name for name in dict.fromkeys([*before, *after]) if name != "metrics"]
    lines = [
        f"{name}: recorded {before.get(name)!r}, now {after.get(name)!r}"
        for name in names
        if not _same(before.get(name), after.get(name))
    ]
    for metric in dict.fromkeys([*before["metrics"], *after["metrics"]]):
        old, new = before["metrics"].get(metric, {}), after["metrics"].get(metric, {})
        for part in ("value", "low", "high", "reason"):
            if not _same(old.get(part), new.get(part)):
                lines.append(f"{metric} {part}: recorded {old.get(part)}, now {new.get(part)}")
    return lines


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= TOLERANCE
    return bool(a == b)


def readme_drift(table: Mapping[str, Any], submissions: Path = SUBMISSIONS) -> list[str]:
    """Return a line if the README shows another table; nothing where there is no README, as in an installation."""
    path = readme_path(submissions)
    if not path.is_file():
        return []
    shown = _block(path.read_text(encoding="utf-8"))
    if shown is None:
        return [f"{path.name}: has no lines {BEGIN} and {END}"]
    lines = shown.strip().removeprefix("```text\n").removesuffix("\n```").splitlines()
    for number, (old, new) in enumerate(zip(lines, wanted := render(table).rstrip().splitlines(), strict=False), 1):
        if old != new:
            return [f"{path.name}, line {number} of the table: shows '{old.strip()}', now '{new.strip()}'"]
    return [] if len(lines) == len(wanted) else [f"{path.name}: the table has {len(lines)} lines, now {len(wanted)}"]
