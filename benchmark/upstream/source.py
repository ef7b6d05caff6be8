"""Read the tables of the release from folders, and report every surprise by file and row."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark.upstream.release import COMBINED, SUMMARIES, Table

SUFFIXES = (".parquet", ".jsonl", ".json")
MOST = 100  # surprises that are kept; all are counted


class UpstreamError(ValueError):
    """The release is not what its description says; `lines` name each surprise by file and row."""

    def __init__(self, lines: Sequence[str], count: int) -> None:
        self.lines = tuple(lines)
        more = f" (and {count - 1} more)" if count > 1 else ""
        super().__init__(f"{lines[0]}{more}; nothing was imported")


@dataclass
class Surprises:
    """What was found and not expected: `lines` stop the import, `notes` only stand in its report."""

    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, where: str, column: str, found: object, expected: str) -> None:
        """Report a value; `where` names the file and the row."""
        self.count += 1
        if len(self.lines) < MOST:
            text = repr(found)
            shown = text if len(text) <= 80 else f"{text[:77]}..."
            self.lines.append(f"{where}, field '{column}': found {shown}, expected {expected}")

    def problem(self, line: str) -> None:
        """Report what has no field."""
        self.count += 1
        self.lines.append(line)

    def note(self, line: str) -> None:
        """Keep a remark, once."""
        if line not in self.notes:
            self.notes.append(line)

    def raise_if_any(self) -> None:
        """Raise UpstreamError if anything stops the import."""
        if self.lines:
            raise UpstreamError(self.lines, self.count)


@dataclass(frozen=True)
class Placed:
    """One row with its place."""

    config: str
    where: str
    values: Mapping[str, Any]

    def __getitem__(self, column: str) -> Any:
        return self.values[column]


def config_files(folder: Path) -> dict[str, list[Path]]:
    """Return the data files of each config: by the YAML of the card, else by the names of folders and files."""
    declared = _declared(folder)
    if declared:
        return {
            name: sorted({p for g in globs for p in folder.glob(g) if p.is_file()}) for name, globs in declared.items()
        }
    found: dict[str, list[Path]] = {}
    for path in sorted(p for p in folder.rglob("*") if p.suffix in SUFFIXES and not p.name.startswith(".")):
        parts = [part for part in path.relative_to(folder).parts[:-1] if part != "data"]
        found.setdefault(parts[-1] if parts else path.stem.split("-0")[0], []).append(path)
    return found


def _declared(folder: Path) -> dict[str, list[str]]:
    import yaml

    card = folder / "README.md"
    if not card.is_file():
        return {}
    parts = card.read_text(encoding="utf-8").split("---\n", 2)
    try:
        head = yaml.safe_load(parts[1]) if len(parts) == 3 else None
    except yaml.YAMLError:
        head = None
    configs = head.get("configs") if isinstance(head, dict) else None
    return {str(c["config_name"]): list(_globs(c.get("data_files"))) for c in configs or ()}


def _globs(declared: Any) -> Iterator[str]:
    if isinstance(declared, str):
        yield declared
    elif isinstance(declared, list):
        for entry in declared:
            yield from _globs(entry)
    elif isinstance(declared, dict):
        yield from _globs(declared["path"] if "path" in declared else list(declared.values()))


def read_table(folder: Path, table: Table, surprises: Surprises) -> list[Placed]:
    """Return the rows of all configs of a table; `combined` repeats them, so it is read only if it stands alone.

    What is missing, of another type or unexpected is reported to `surprises`.
    """
    if not folder.is_dir():
        surprises.problem(f"{folder}: no such folder; expected dataset '{table.dataset}' of the release")
        return []
    files = config_files(folder)
    configs = [name for name in files if name not in (COMBINED, SUMMARIES)]
    if not configs and COMBINED in files:
        surprises.note(f"{folder}: only the config '{COMBINED}' is there; its rows are taken")
        configs = [COMBINED]
    elif COMBINED in files:
        surprises.note(f"{folder}: the config '{COMBINED}' repeats the others and is not read")
    for name in table.configs or ():
        if name not in files and configs != [COMBINED]:
            surprises.problem(f"{folder}: config '{name}' is missing; found {', '.join(sorted(files)) or 'none'}")
    for name in configs if table.configs else ():
        if name not in (*(table.configs or ()), COMBINED):
            surprises.note(f"{folder}: config '{name}' is not described; its rows are taken too")
    rows: list[Placed] = []
    for name in configs:
        if not files[name]:
            surprises.problem(f"{folder}: config '{name}' names no file that exists")
        for path in files[name]:
            rows += _read_file(path, name, table, surprises)
    return rows


def _read_file(path: Path, config: str, table: Table, surprises: Surprises) -> list[Placed]:
    try:
        raw = _raw_rows(path)
    except (OSError, ValueError) as error:
        surprises.problem(f"{path}: cannot be read whole ({' '.join(str(error).split())[:150]})")
        return []
    if not raw:
        surprises.note(f"{path}: holds no row")
        return []
    missing = [column for column in table.columns if all(column not in values for values in raw)]
    for column in missing:
        surprises.problem(f"{path}: column '{column}' is missing; expected {', '.join(table.columns)}")
    extra = sorted({column for values in raw for column in values} - set(table.columns))
    if extra:
        surprises.note(f"{path}: columns that are not described are left out: {', '.join(extra)}")
    rows = []
    for number, values in enumerate(raw):
        where = f"{path}, row {number}"
        found = {
            c: _value(values.get(c), kind, c, where, surprises) for c, kind in table.columns.items() if c not in missing
        }
        if len(found) == len(table.columns):
            rows.append(Placed(config, where, found))
    return rows


def _raw_rows(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        rows: list[dict[str, Any]] = pq.ParquetFile(path).read().to_pylist()
        return rows
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return list(json.loads(text))
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _value(value: Any, kind: str, column: str, where: str, surprises: Surprises) -> Any:
    """Return a value of the described type, and report one of another type."""
    base = kind.rstrip("?")
    if value is None:
        if not kind.endswith("?"):
            surprises.add(where, column, None, f"a value of type {base}")
        return None
    if base == "json" and isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            surprises.add(where, column, value, "a JSON object")
            return {}
    if base == "bins":
        return _bins(value, column, where, surprises)
    right = {
        "str": isinstance(value, str),
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
        "json": isinstance(value, dict),
    }[base]
    if not right:
        surprises.add(where, column, value, f"a value of type {base}")
    return value


def _bins(value: Any, column: str, where: str, surprises: Surprises) -> dict[int, float]:
    try:
        found = {int(entry["bin"]): float(entry["p"]) for entry in value}
    except (TypeError, KeyError, ValueError):
        found = {}
    if value and (set(found) - set(range(1, 9)) or not all(0 <= p <= 1 for p in found.values()) or not found):
        surprises.add(where, column, value, "a list of {bin: 1 to 8, p: 0 to 1}")
    return found
