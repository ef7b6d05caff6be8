"""Check a packaged dataset: files against the manifest, rows against their schema, references between tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.cross_checks import Place, Rows, cross_check
from benchmark.parquet import read_table
from benchmark.records import TABLES, RecordError, validate

if TYPE_CHECKING:
    import pyarrow as pa


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of a packaged dataset; raises RecordError if there is no readable one."""
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if all({"rows", "bytes", "sha256"} <= set(entry) for entry in manifest["files"].values()):
            return dict(manifest)
        raise ValueError("'files' must give rows, bytes and sha256 of each file")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"{path}: not the manifest of a packaged dataset ({error})") from None


def check_files(folder: Path, manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return {file: what is wrong} for every file of the manifest that is missing, cut or changed."""
    problems: dict[str, str] = {}
    for relative, entry in {**manifest["files"], **manifest.get("documents", {})}.items():
        path = folder / relative
        if not path.is_file():
            problems[relative] = f"{path}: is in the manifest, but there is no such file"
            continue
        size = path.stat().st_size
        if size != entry["bytes"]:
            verb = "was cut" if size < entry["bytes"] else "has grown"
            problems[relative] = f"{path}: {verb}: it holds {size:,} bytes, the manifest says {entry['bytes']:,}"
        elif (found := hashlib.sha256(path.read_bytes()).hexdigest()) != entry["sha256"]:
            problems[relative] = f"{path}: sha256 is {found[:12]}..., the manifest says {entry['sha256'][:12]}..."
    return problems


def check_dataset(folder: Path, progress: Callable[[int], None] = lambda n: None) -> list[str]:
    """Return every problem found in a packaged dataset, one line each; an empty list means that it can be trusted.

    `progress` is told of each file that is done. Raises RecordError if there is no readable manifest.
    """
    manifest = read_manifest(folder)
    files: Mapping[str, Mapping[str, Any]] = manifest["files"]
    changed = check_files(folder, manifest)
    problems = list(changed.values())
    present = {str(p.relative_to(folder)) for name in TABLES for p in (folder / name).glob("*.parquet")}
    for relative in sorted(present - set(files)):
        problems.append(f"{folder / relative}: is not in the manifest; remove it or package the dataset again")
    tables: dict[str, Rows] = {name: [] for name in TABLES}
    broken: set[str] = set()  # tables that could not be read whole: a reference into them proves nothing
    for relative in files:
        name = relative.split("/")[0]
        if relative not in present:
            broken.add(name)
        else:
            try:
                tables[name] += _rows(folder, relative, files[relative]["rows"], problems)
            except RecordError as error:
                problems.append(str(error))
                broken.add(name)
        progress(1)
    problems += cross_check(tables, broken, manifest)
    return problems


def _rows(folder: Path, relative: str, expected: int, problems: list[str]) -> Rows:
    name, file = relative.split("/")[0], str(folder / relative)
    table = read_table(folder / relative, name)
    validate(name, table, where=file)
    if table.num_rows != expected:
        problems.append(f"{file}: holds {table.num_rows} rows, the manifest says {expected}")
    if "split" in TABLES[name] and name != "searches":
        split = relative.split("/")[1].split("-")[0]
        problems += list(_other_splits(table, split, file))
    return [(Place(file, row.pop("place", i)), row) for i, row in enumerate(_distinct(name, table).to_pylist())]


def _other_splits(table: pa.Table, split: str, file: str) -> Iterator[str]:
    for row, found in enumerate(table.column("split").to_pylist()):
        if found != split:
            yield Place(file, row).problem("split", found, f"'{split}'")


def _distinct(name: str, table: pa.Table) -> pa.Table:
    """The long tables by the first row of each set of references: their other columns refer to nothing."""
    import pyarrow as pa

    columns = {"measurements": ["kernel_id", "session_id"], "events": ["search_id"]}.get(name)
    if columns is None:
        return table
    numbered = table.select(columns).append_column("place", pa.array(range(table.num_rows), pa.int64()))
    return numbered.group_by(columns).aggregate([("place", "min")]).rename_columns([*columns, "place"])
