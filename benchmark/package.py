"""Package a dataset: a pure function from the event logs of its searches to tables, card and manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.event_log import SearchLog, find_logs, read_search
from benchmark.near_duplicate import Signature
from benchmark.parquet import write_table
from benchmark.query import SPLITS
from benchmark.records import KEYS, SCHEMA_VERSION, TABLES, schema
from benchmark.samples import Row
from benchmark.splits import Dropped, seed_splits, split_manifest
from benchmark.tables import make_tables

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT_TABLES = tuple(name for name, columns in TABLES.items() if "split" in columns and name != "searches")
MANIFEST = "manifest.json"
DOCUMENTS = ("README.md", "croissant.json")
# Kernels of one task stand together, so that their likeness is within reach of the compression. Ids are hashes: the
# order inside a task tells nothing.
_ORDER: Mapping[str, tuple[str, ...]] = {
    "kernels": ("task", "kernel_id"),
    "pairs": ("task", "pair_id"),
    "same_program": ("task", "pair_id"),
    "eval": ("task", "pair_id"),
    "measurements": KEYS["measurements"],
}
Stage = Callable[[str, int], Callable[[int], None]]


def _silent(label: str, total: int) -> Callable[[int], None]:
    return lambda n: None


def package(
    dataset: str, raw_dir: Path, out_dir: Path, overwrite: bool = False, stage: Stage = _silent
) -> dict[str, Any]:
    """Write tables, card, `croissant.json` and manifest of a dataset, from `raw_dir/SEARCH_ID/events.jsonl[.gz]`.

    A pure function of the logs: repeated, every file has the same bytes. Returns the manifest. `stage(label, total)`
    is called as each long step begins and gives a function that counts what is done. Raises LogError for a broken log,
    RecordError for a row that breaks its schema, FileExistsError if a packaged dataset is there already.
    """
    raw_dir, out_dir = Path(raw_dir), Path(out_dir)
    old = [p for table in TABLES for p in sorted((out_dir / table).glob("*.parquet"))]
    if (old or (out_dir / MANIFEST).exists()) and not overwrite:
        raise FileExistsError(f"{out_dir}: holds a packaged dataset; choose another folder or overwrite it")
    paths = find_logs(raw_dir)
    advance = stage("reading logs", len(paths))
    logs: list[SearchLog] = []
    for path in paths:
        logs.append(read_search(path))
        advance(1)
    splits = split_manifest(seed_splits(logs), logs)
    dropped = Dropped()
    distinct = len({event.kernel_id for log in logs for event in log.measured})
    tables = make_tables(logs, dropped, stage("labelling kernels", 2 * distinct))
    digests = [_digest(path) for path in paths]
    more = {
        "source": "measured",
        "splits": splits,
        "eval_selection": tables.eval_selection,
        "dropped": dropped.rows(),
        "logs": [
            {"search_id": log.search_id, "events": len(log.events), "torn_tail": log.torn, "sha256": digest}
            for log, digest in zip(logs, digests, strict=True)
        ],
    }
    return write_dataset(dataset, tables.rows, out_dir, more, stage, tables.samples, tables.signatures)


def write_dataset(
    dataset: str,
    rows: Mapping[str, Sequence[Row]],
    out_dir: Path,
    more: Mapping[str, Any],
    stage: Stage = _silent,
    samples: Mapping[str, list[Any]] | None = None,
    signatures: Mapping[str, Signature] | None = None,
) -> dict[str, Any]:
    """Write the rows of every table, the documents and the manifest, which `more` completes; return the manifest.

    `samples` are the rows of the measurements table by column: millions of them would not fit as dictionaries.
    `signatures` spares the audit the time to make those that it lacks.
    Tables of an earlier dataset that this one lacks are removed, so that nothing stale is left.
    """
    import pyarrow as pa

    files: dict[str, Row] = {}
    for name in TABLES:
        parts = [(split, _arrow(name, part)) for split, part in _by_split(name, rows.get(name, ()))]
        if name == "measurements" and samples and samples["time_ns"]:
            parts = [("all", _sorted(name, pa.table(dict(samples), schema=schema(name))))]
        for split, table in parts:
            relative = f"{name}/{split}-00000-of-00001.parquet"
            write_table(name, table, out_dir / relative)
            files[relative] = {"rows": table.num_rows, **_size(out_dir / relative)}
    for path in [p for table in TABLES for p in sorted((out_dir / table).glob("*.parquet"))]:
        if str(path.relative_to(out_dir)) not in files:
            path.unlink()
    manifest: dict[str, Any] = {"dataset": dataset, "schema_version": SCHEMA_VERSION, "files": files, **more}
    _write_json(out_dir / MANIFEST, manifest)
    manifest["documents"] = write_documents(out_dir, manifest, stage, signatures)
    _write_json(out_dir / MANIFEST, manifest)
    return manifest


def write_documents(
    folder: Path,
    manifest: Mapping[str, Any],
    stage: Stage = _silent,
    signatures: Mapping[str, Signature] | None = None,
) -> dict[str, Row]:
    """Write the card and `croissant.json` of a packaged dataset from its tables; return {name: bytes and sha256}."""
    from benchmark.audit import audit
    from benchmark.card import card
    from benchmark.croissant import croissant

    text = card(folder, manifest, audit(folder, stage, signatures))
    (folder / "README.md").write_text(text, encoding="utf-8", newline="\n")
    _write_json(folder / "croissant.json", croissant(folder, manifest))
    return {name: _size(folder / name) for name in DOCUMENTS}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _size(path: Path) -> Row:
    data = path.read_bytes()
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(value, indent=1, ensure_ascii=True, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _by_split(name: str, rows: Sequence[Row]) -> list[tuple[str, Sequence[Row]]]:
    if name not in SPLIT_TABLES:
        return [("all", rows)] if rows else []
    return [(s, part) for s in SPLITS if (part := [row for row in rows if row["split"] == s])]


def _arrow(name: str, rows: Sequence[Row]) -> pa.Table:
    import pyarrow as pa

    return _sorted(name, pa.Table.from_pylist(list(rows), schema=schema(name)))


def _sorted(name: str, table: pa.Table) -> pa.Table:
    return table.sort_by([(column, "ascending") for column in _ORDER[name]]) if name in _ORDER else table
