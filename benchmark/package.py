"""Package a dataset: a pure function from the event logs of its searches to record tables and a manifest."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.event_log import LogError, SearchLog, find_logs, read_search
from benchmark.labels import Labeller
from benchmark.parquet import write_table
from benchmark.query import SPLITS, TEST_SPLITS
from benchmark.records import KEYS, SCHEMA_VERSION, TABLES, schema
from benchmark.samples import MAX_SAMPLES, Kernel, Row, gather, thin
from benchmark.structure import structure_hash

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT_TABLES = ("kernels", "nodes", "pairs")
_SESSION_COLUMNS = tuple(TABLES["sessions"])


class Dropped:
    """Rows that were left out, by table and reason."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.counts: dict[tuple[str, str], int] = defaultdict(int)

    def add(self, table: str, reason: str, row_id: str | None = None, rows: int = 1) -> None:
        self.counts[table, reason] += rows
        if row_id is not None:
            self.ids[table, reason].append(row_id)

    def rows(self) -> list[Row]:
        return [
            {"table": table, "reason": reason, "rows": rows, "ids": sorted(self.ids[table, reason])}
            for (table, reason), rows in sorted(self.counts.items())
        ]


def package(dataset: str, raw_dir: Path, out_dir: Path, overwrite: bool = False) -> dict[str, Any]:
    """Write the tables of a dataset and `manifest.json` into `out_dir`, from `raw_dir/SEARCH_ID/events.jsonl[.gz]`.

    A pure function of the logs: repeated, every file has the same bytes. Returns the manifest. Raises LogError for a
    broken log, RecordError for a row that breaks its schema, FileExistsError if a packaged dataset is there already.
    """
    raw_dir, out_dir = Path(raw_dir), Path(out_dir)
    old = [p for table in TABLES for p in sorted((out_dir / table).glob("*.parquet"))]
    if (old or (out_dir / "manifest.json").exists()) and not overwrite:
        raise FileExistsError(f"{out_dir}: holds a packaged dataset; choose another folder or overwrite it")
    paths = find_logs(raw_dir)
    logs = [read_search(path) for path in paths]
    splits = _seed_splits(logs)
    dropped = Dropped()
    tables = _tables(logs, dropped)
    files: dict[str, Row] = {}
    written: set[Path] = set()
    for name in TABLES:
        for split, rows in _by_split(name, tables[name]):
            relative = f"{name}/{split}-00000-of-00001.parquet"
            table = _arrow(name, rows)
            write_table(name, table, out_dir / relative)
            data = (out_dir / relative).read_bytes()
            files[relative] = {"rows": table.num_rows, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            written.add(out_dir / relative)
    for path in old:
        if path not in written:
            path.unlink()
    manifest: dict[str, Any] = {
        "dataset": dataset,
        "schema_version": SCHEMA_VERSION,
        "files": files,
        "splits": splits,
        "dropped": dropped.rows(),
        "logs": [
            {
                "search_id": log.search_id,
                "events": len(log.events),
                "torn_tail": log.torn,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
            for log, path in zip(logs, paths, strict=True)
        ],
    }
    text = json.dumps(manifest, indent=1, ensure_ascii=True, allow_nan=False) + "\n"
    (out_dir / "manifest.json").write_text(text, encoding="utf-8")
    return manifest


def _seed_splits(logs: Sequence[SearchLog]) -> dict[str, dict[str, str]]:
    """Return task -> seed -> split; a seed in two splits breaks the lineage rule, so it is an error."""
    splits: dict[str, dict[str, str]] = defaultdict(dict)
    searches: dict[str, SearchLog] = {}
    for log in logs:
        if log.split not in SPLITS:
            raise LogError(f"{log.path}, line 1: split is '{log.split}', expected one of {', '.join(SPLITS)}")
        if log.search_id in searches:
            raise LogError(f"{log.path}, line 1: search_id '{log.search_id}' is that of {searches[log.search_id].path}")
        searches[log.search_id] = log
        for seed in sorted({*log.seeds, *(n.seed_id for n in log.nodes.values())}):
            known = splits[log.task["name"]].setdefault(seed, log.split)
            if known != log.split:
                raise LogError(
                    f"{log.path}: seed '{seed}' is in split '{log.split}', but another search has it in '{known}'"
                )
    return {task: dict(sorted(seeds.items())) for task, seeds in sorted(splits.items())}


def _tables(logs: Sequence[SearchLog], dropped: Dropped) -> dict[str, list[Row]]:
    kernels = gather(logs)
    structures = {k: structure_hash(kernel.code) for k, kernel in kernels.items()}
    side = _sides(kernels, structures, dropped)
    thinned = {k: thin(kernel) for k, kernel in kernels.items()}
    kept = {k: kernel for k, kernel in kernels.items() if k in side}
    labeller = Labeller(kernels, {k: timings for k, (_, timings, _) in thinned.items()}, kept)
    for k in kept:
        if thinned[k][2]:
            reason = f"beyond {MAX_SAMPLES} samples of a process, case and side"
            dropped.add("measurements", reason, rows=thinned[k][2])
    return {
        "tasks": _merge(logs, lambda log: [_task_row(log.task)], "task"),
        "kernels": [labeller.kernel_row(k, structures[k], side[k]) for k in kept],
        "nodes": _nodes(logs, side, dropped),
        "sessions": _merge(logs, lambda log: [_session_row(s) for s in log.sessions.values()], "session_id"),
        "measurements": [row for k in kept for row in thinned[k][0]],
        "pairs": _pairs(logs, labeller, side, dropped),
        "events": [_event_row(log.search_id, event) for log in logs for event in log.events],
    }


def _sides(kernels: Mapping[str, Kernel], structures: Mapping[str, str], dropped: Dropped) -> dict[str, str]:
    """Return the split of each kernel that stays.

    A structure stands on one side only: on the test side if it appears there, else in validation, so that nothing that
    a surrogate learns from or is tuned on is a near copy of what it is scored on.
    """
    places: dict[str, set[str]] = defaultdict(set)
    for k, kernel in kernels.items():
        places[structures[k]].update(log.split for log, _ in kernel.measured)
    side: dict[str, str] = {}
    for k, kernel in kernels.items():
        seen = places[structures[k]]
        allowed = seen.intersection(TEST_SPLITS) or seen.intersection(("validation",)) or seen
        own = [split for split in SPLITS if split in allowed and any(log.split == split for log, _ in kernel.measured)]
        if own:
            side[k] = own[-1]
        else:
            dropped.add("kernels", f"its structure appears in {', '.join(sorted(allowed))}", k)
    return side


def _nodes(logs: Sequence[SearchLog], side: Mapping[str, str], dropped: Dropped) -> list[Row]:
    rows: list[Row] = []
    for log in logs:
        measured = {event.node_id for event in log.measured}
        kept: set[str] = set()
        for node in log.nodes.values():
            if node.node_id not in measured:
                dropped.add("nodes", "never measured", node.node_id)
                continue
            if side.get(node.kernel_id) != log.split:
                dropped.add("nodes", "its kernel stands in another split", node.node_id)
                continue
            kept.add(node.node_id)
            rows.append(
                {"node_id": node.node_id, "kernel_id": node.kernel_id, "task": log.task["name"],
                 "search_id": log.search_id, "parent_node_id": node.parent if node.parent in kept else None,
                 "seed_id": node.seed_id, "step": node.step, "origin": node.origin, "operator": node.operator,
                 "operator_class": node.operator_class, "split": log.split}
            )  # fmt: skip
    return rows


def _pairs(logs: Sequence[SearchLog], labeller: Labeller, side: Mapping[str, str], dropped: Dropped) -> list[Row]:
    rows: dict[str, Row] = {}
    for log in logs:
        for row, key, reason in labeller.pair_rows(log):
            if row is not None and {side.get(row["parent_id"]), side.get(row["child_id"])} != {log.split}:
                row, reason = None, "its parent or child stands in another split"
            if row is not None and key in rows:
                row, reason = None, "the same edge of the same search again"
            if row is None:
                dropped.add("pairs", reason, key)
            else:
                rows[key] = row | {"split": log.split}
    return [rows[key] for key in sorted(rows)]


def _merge(logs: Sequence[SearchLog], rows_of: Any, key: str) -> list[Row]:
    """Return the distinct rows of all logs; one key with two contents is an error."""
    rows: dict[str, Row] = {}
    for log in logs:
        for row in rows_of(log):
            known = rows.setdefault(row[key], row)
            if known != row:
                field = next(name for name in row if row[name] != known[name])
                raise LogError(f"{log.path}: {key} '{row[key]}' differs in '{field}' from that of an earlier log")
    return [rows[name] for name in sorted(rows)]


def _task_row(task: Mapping[str, Any]) -> Row:
    facts = json.dumps({"cases": task["cases"]}, sort_keys=True, allow_nan=False)
    columns = ("source", "family", "statement", "reference_code")
    return {"task": task["name"], **{name: task[name] for name in columns}, "facts": facts}


def _session_row(session: Mapping[str, Any]) -> Row:
    optional = {name for name, kind in TABLES["sessions"].items() if kind.endswith("?")}
    return {name: session.get(name) if name in optional else session[name] for name in _SESSION_COLUMNS}


def _event_row(search_id: str, event: Mapping[str, Any]) -> Row:
    """Return an event without what other tables hold: source code, samples, and the task's description."""
    payload = {k: v for k, v in event.items() if k not in ("index", "kind", "code")}
    if event["kind"] == "measured":
        payload["measurement"] = {k: v for k, v in event["measurement"].items() if k != "cases"}
    elif event["kind"] == "search_started":
        payload["task"] = event["task"]["name"]
        payload.pop("search_id")
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return {"search_id": search_id, "index": event["index"], "kind": event["kind"], "payload": text}


def _by_split(name: str, rows: list[Row]) -> list[tuple[str, list[Row]]]:
    if name not in SPLIT_TABLES:
        return [("all", rows)]
    return [(s, part) for s in SPLITS if (part := [row for row in rows if row["split"] == s])]


def _arrow(name: str, rows: Sequence[Row]) -> pa.Table:
    import pyarrow as pa

    table = pa.Table.from_pylist(list(rows), schema=schema(name))
    if name in ("kernels", "pairs", "measurements"):
        table = table.sort_by([(column, "ascending") for column in KEYS[name]])
    return table
