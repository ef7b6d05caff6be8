"""From the event logs of searches to the rows of every record table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmark.code_view import code_view
from benchmark.eval_selection import candidate_rows, select, selection_report
from benchmark.event_log import LogError, SearchLog
from benchmark.labels import Labeller
from benchmark.near_duplicate import Signature, distinct_structures
from benchmark.pair_labels import pair_rows
from benchmark.records import TABLES
from benchmark.samples import Row, gather, is_primary, thin
from benchmark.splits import Dropped, place_kernels

TREE_BUDGET = 1000  # measurements, from which on a search can be replayed: a replay may spend a fifth of them
UNIFORM = "uniform"  # the selection that draws parents independently of speed, so that a replay favours no policy
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Tables:
    """The rows of a dataset.

    `rows` holds every table but measurements, which `samples` holds by column; `eval_selection` says how eval was drawn
    and `signatures` has the MinHash signature of each structure_hash.
    """

    rows: dict[str, list[Row]]
    samples: dict[str, list[Any]]
    eval_selection: dict[str, Any]
    signatures: dict[str, Signature]


def make_tables(logs: Sequence[SearchLog], dropped: Dropped, progress: Progress = lambda n: None) -> Tables:
    """Return the tables of all searches; `progress` is told of each kernel that is done, twice."""
    kernels = gather(logs)
    hashes, signatures = distinct_structures((kernel.code for kernel in kernels.values()), progress)
    structures = dict(zip(kernels, hashes, strict=True))
    side = place_kernels(kernels, structures, signatures, dropped)
    thinned = {k: thin(kernel) for k, kernel in kernels.items()}
    kept = [k for k in kernels if k in side]
    labeller = Labeller(kernels, {k: timings for k, (_, timings, _) in thinned.items()}, kept)
    for k in kept:
        for reason, rows in thinned[k][2].items():
            dropped.add("measurements", reason, rows=rows)
    tables: dict[str, list[Row]] = {
        "tasks": _merge(logs, lambda log: [_task_row(log.task)], "task"),
        "searches": sorted((_search_row(log) for log in logs), key=lambda row: str(row["search_id"])),
        "kernels": [],
        "nodes": _nodes(logs, side, dropped),
        "sessions": _merge(logs, lambda log: [_session_row(s) for s in log.sessions.values()], "session_id"),
        "events": [_event_row(log.search_id, event) for log in logs for event in log.events],
    }
    for k in kept:
        tables["kernels"].append(labeller.kernel_row(k, structures[k], side[k]))
        progress(1)
    samples = {name: [value for k in kept for value in thinned[k][0][name]] for name in TABLES["measurements"]}
    tables |= _edges(logs, labeller, side, dropped)
    references = {row["task"]: code_view(row["reference_code"]) for row in tables["tasks"]}
    candidates = candidate_rows(tables["kernels"], tables["pairs"], tables["nodes"], references)
    tables["eval"], cells = select(candidates)
    if len(candidates) > len(tables["eval"]):
        dropped.add("eval", "not drawn", rows=len(candidates) - len(tables["eval"]))
    return Tables(tables, samples, selection_report(cells), signatures)


def _nodes(logs: Sequence[SearchLog], side: Mapping[str, str], dropped: Dropped) -> list[Row]:
    rows: list[Row] = []
    for log in logs:
        measured = {event.node_id for event in log.measured if is_primary(log, event)}
        again = {event.node_id for event in log.measured} - measured
        kept: set[str] = set()
        for node in log.nodes.values():
            if node.node_id not in measured:
                reason = "measured in second sessions alone" if node.node_id in again else "never measured"
                dropped.add("nodes", reason, node.node_id)
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


def _edges(
    logs: Sequence[SearchLog], labeller: Labeller, side: Mapping[str, str], dropped: Dropped
) -> dict[str, list[Row]]:
    tables: dict[str, dict[str, Row]] = {"pairs": {}, "same_program": {}}
    for log in logs:
        for edge in pair_rows(labeller, log):
            row, reason, rows = edge.row, edge.reason, tables[edge.table]
            if row is not None and {side.get(row["parent_id"]), side.get(row["child_id"])} != {log.split}:
                row, reason = None, "its parent or child stands in another split"
            if row is not None and edge.pair_id in rows:
                row, reason = None, "the same edge of the same search again"
            if row is None:
                dropped.add(edge.table, reason, edge.pair_id)
            else:
                rows[edge.pair_id] = row | {"split": log.split}
    return {name: [rows[key] for key in sorted(rows)] for name, rows in tables.items()}


def _merge(logs: Sequence[SearchLog], rows_of: Callable[[SearchLog], list[Row]], key: str) -> list[Row]:
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


def _search_row(log: SearchLog) -> Row:
    started, config = log.events[0], log.events[0]["config"]
    return {
        "search_id": log.search_id, "task": log.task["name"], "split": log.split,
        "arm": str(config.get("arm", "gpu-only")),
        "mutator": str(config.get("mutator", "source")), "isolation": config.get("isolation", "unknown"),
        "seeds": ",".join(log.seeds), "seed": config.get("seed", 0), "budget": config["budget"],
        "measured": len({e.node_id for e in log.measured if e.role == "candidate" and is_primary(log, e)}),
        "replay_tree": config.get("selection") == UNIFORM and config["budget"] >= TREE_BUDGET,
        "ended": next((e.get("reason") for e in reversed(log.events) if e["kind"] == "search_completed"), None),
        "started_at": started["created_at"],
    }  # fmt: skip


def _session_row(session: Mapping[str, Any]) -> Row:
    optional = {name for name, kind in TABLES["sessions"].items() if kind.endswith("?")}
    return {name: session.get(name) if name in optional else session[name] for name in TABLES["sessions"]}


def _event_row(search_id: str, event: Mapping[str, Any]) -> Row:
    """Return an event without what other tables hold: source code, samples, and the task's description."""
    payload = {k: v for k, v in event.items() if k not in ("index", "kind", "code")}
    if event["kind"] in ("measured", "confirmed"):
        payload["measurement"] = {k: v for k, v in event["measurement"].items() if k != "cases"}
    elif event["kind"] == "search_started":
        payload["task"] = event["task"]["name"]
        payload.pop("search_id")
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return {"search_id": search_id, "index": event["index"], "kind": event["kind"], "payload": text}
