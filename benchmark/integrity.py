"""Check a packaged dataset: files against the manifest, rows against their schema, references between tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.identity import kernel_id, pair_id
from benchmark.parquet import read_table
from benchmark.query import TEST_SPLITS
from benchmark.records import KEYS, TABLES, TAUS, RecordError, validate

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """A row of a file."""

    file: str
    row: int

    def problem(self, field: str, found: object, expected: str) -> str:
        """Return the line that names the file, the row and the field."""
        return f"{self.file}, row {self.row}, field '{field}': found {found!r}, expected {expected}"


def check_dataset(folder: Path) -> list[str]:
    """Return every problem found in a packaged dataset, one line each; an empty list means that it can be trusted.

    Raises RecordError if there is no readable manifest.
    """
    path = folder / "manifest.json"
    try:
        files: Mapping[str, Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{path}: not the manifest of a packaged dataset ({error})") from None
    problems: list[str] = []
    broken: set[str] = set()  # tables that could not be read whole: a reference into them proves nothing
    tables: dict[str, list[tuple[Place, Row]]] = {name: [] for name in TABLES}
    present = {str(p.relative_to(folder)) for name in TABLES for p in (folder / name).glob("*.parquet")}
    for relative in sorted(present - set(files)):
        problems.append(f"{folder / relative}: is not in the manifest; remove it or package the dataset again")
    for relative, entry in files.items():
        name, file = relative.split("/")[0], str(folder / relative)
        if relative not in present:
            problems.append(f"{file}: is in the manifest, but there is no such file")
            broken.add(name)
            continue
        found = hashlib.sha256((folder / relative).read_bytes()).hexdigest()
        if found != entry["sha256"]:
            problems.append(f"{file}: sha256 is {found[:12]}..., the manifest says {entry['sha256'][:12]}...")
        try:
            table = read_table(folder / relative, name)
            validate(name, table, where=file)
        except RecordError as error:
            problems.append(str(error))
            broken.add(name)
            continue
        if table.num_rows != entry["rows"]:
            problems.append(f"{file}: holds {table.num_rows} rows, the manifest says {entry['rows']}")
        rows = [(Place(file, row.pop("place", i)), row) for i, row in enumerate(_distinct(name, table).to_pylist())]
        tables[name] += rows
        if "split" in TABLES[name]:
            split = relative.split("/")[1].split("-")[0]
            problems += [p.problem("split", r["split"], f"'{split}'") for p, r in rows if r["split"] != split]
    problems += _duplicates(tables)
    problems += _dangling(tables, broken)
    problems += _kernels(tables)
    problems += _pairs(tables)
    return problems


def _distinct(name: str, table: pa.Table) -> pa.Table:
    """The long tables by the first row of each set of references: their other columns refer to nothing."""
    import pyarrow as pa

    columns = {"measurements": ["kernel_id", "session_id"], "events": ["search_id"]}.get(name)
    if columns is None:
        return table
    numbered = table.select(columns).append_column("place", pa.array(range(table.num_rows), pa.int64()))
    return numbered.group_by(columns).aggregate([("place", "min")]).rename_columns([*columns, "place"])


def _duplicates(tables: Mapping[str, Sequence[tuple[Place, Row]]]) -> Iterator[str]:
    for name in ("kernels", "nodes", "pairs"):
        rows = tables[name]
        seen: dict[tuple[Any, ...], Place] = {}
        for place, row in rows:
            key = tuple(row[column] for column in KEYS[name])
            first = seen.setdefault(key, place)
            if first is not place:
                found = key if len(key) > 1 else key[0]
                yield place.problem(", ".join(KEYS[name]), found, f"an id not used in {first.file}, row {first.row}")


def _values(rows: Iterable[tuple[Place, Row]], column: str) -> set[Any]:
    return {row[column] for _, row in rows}


def _dangling(tables: Mapping[str, Sequence[tuple[Place, Row]]], broken: Collection[str]) -> Iterator[str]:
    references = (
        ("kernels", "task", "tasks", "task"),
        ("nodes", "kernel_id", "kernels", "kernel_id"),
        ("nodes", "parent_node_id", "nodes", "node_id"),
        ("measurements", "kernel_id", "kernels", "kernel_id"),
        ("measurements", "session_id", "sessions", "session_id"),
        ("pairs", "parent_id", "kernels", "kernel_id"),
        ("pairs", "child_id", "kernels", "kernel_id"),
        ("pairs", "search_id", "nodes", "search_id"),
        ("nodes", "search_id", "events", "search_id"),
    )
    for table, column, other, key in references:
        if other in broken:
            continue
        known = _values(tables[other], key)
        reported: set[Any] = set()
        for place, row in tables[table]:
            value = row[column]
            if value is not None and value not in known and value not in reported:
                reported.add(value)
                yield place.problem(column, value, f"a {key} of table {other}")


def _kernels(tables: Mapping[str, Sequence[tuple[Place, Row]]]) -> Iterator[str]:
    stands: dict[str, tuple[Place, str]] = {}
    for place, row in tables["kernels"]:
        expected = kernel_id(row["task"], row["code"])
        if row["kernel_id"] != expected:
            yield place.problem("kernel_id", row["kernel_id"], f"'{expected}', the hash of its task and code")
        yield from _interval(place, row)
        side = "test" if row["split"] in TEST_SPLITS else row["split"]
        other, known = stands.setdefault(row["structure_hash"], (place, side))
        if known != side:
            yield place.problem("structure_hash", row["structure_hash"], f"none of {other.file}, row {other.row}")


def _pairs(tables: Mapping[str, Sequence[tuple[Place, Row]]]) -> Iterator[str]:
    kernels = {row["kernel_id"]: row for _, row in tables["kernels"]}
    for place, row in tables["pairs"]:
        expected = pair_id(row["search_id"], row["parent_id"], row["child_id"])
        if row["pair_id"] != expected:
            yield place.problem("pair_id", row["pair_id"], f"'{expected}', the hash of its search, parent and child")
        yield from _interval(place, row)
        for side in ("parent", "child"):
            kernel = kernels.get(row[f"{side}_id"])
            if kernel is None:
                continue
            if kernel["split"] != row["split"]:
                yield place.problem(f"{side}_id", row[f"{side}_id"], f"a kernel of split '{row['split']}'")
            if kernel["code_view"] != row[f"{side}_code"]:
                yield place.problem(f"{side}_code", row[f"{side}_code"][:40], "the code_view of that kernel")
        child = kernels.get(row["child_id"])
        if child is not None and child["status"] != row["child_status"]:
            yield place.problem("child_status", row["child_status"], f"'{child['status']}', the status of that kernel")
        if row["speedup"] is not None:
            for name, tau in TAUS.items():
                resolved = not row["speedup_low"] <= tau <= row["speedup_high"]
                if row[f"resolved_{name}"] != resolved:
                    yield place.problem(f"resolved_{name}", row[f"resolved_{name}"], f"{resolved}, by its interval")


def _interval(place: Place, row: Row) -> Iterator[str]:
    low, speedup, high = row["speedup_low"], row["speedup"], row["speedup_high"]
    if speedup is None:
        if low is not None or high is not None:
            yield place.problem("speedup_low", low, "null, because speedup is null")
    elif low is None or high is None or not low <= speedup <= high:
        yield place.problem("speedup", speedup, f"a value within speedup_low {low} and speedup_high {high}")
