"""From the event logs of the release to search trees: both versions of the log, nodes with parents and outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np

from benchmark.upstream.release import V2_KINDS, V3_KINDS
from benchmark.upstream.source import Placed, Surprises

STATUS = {
    "success": "ok", "compile_failed": "compile", "runtime_error": "runtime", "incorrect": "incorrect",
}  # fmt: skip
NOT_MEASURED = "infrastructure_failure"


@dataclass
class Node:
    """One program of a search; `status` is None until it was evaluated."""

    ulid: str
    parent: str | None
    code: str
    step: int
    status: str | None = None
    error: str | None = None
    speedup: float | None = None
    time_us: float | None = None
    reference_us: float | None = None
    measured_at: str = ""


@dataclass
class Search:
    """One search of the release, folded from its events."""

    name: str
    config: str
    version: int
    task: str
    hardware: str | None
    nodes: dict[str, Node] = field(default_factory=dict)
    evaluations: int = 0
    not_measured: int = 0
    started_at: str = ""


def read_searches(rows: Sequence[Placed], surprises: Surprises) -> list[Search]:
    """Return the searches of the event rows, in order of name.

    A log whose kinds or parents do not fit either version is reported by file and row.
    """
    ordered = sorted(rows, key=lambda row: (row["source_search"] or "", row["event_index"] or 0))
    return [_fold(name, list(part), surprises) for name, part in groupby(ordered, key=lambda row: row["source_search"])]


def _fold(name: str, rows: Sequence[Placed], surprises: Surprises) -> Search:
    kinds = {row["event_kind"] for row in rows}
    first: Mapping[str, Any] = next((row["payload"] for row in rows if row["event_kind"] == "search_initialized"), {})
    version = 3 if kinds - V2_KINDS or "kernel_task" in first else 2
    search = Search(name, rows[0].config, version, rows[0].config.split("__")[0], _device(first))
    if "search_initialized" not in kinds:
        surprises.add(
            rows[0].where, "event_kind", rows[0]["event_kind"], "a search that begins with search_initialized"
        )
    step, previous = 0, None
    requested: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        kind, payload = row["event_kind"], row["payload"]
        if row["event_index"] == previous:
            surprises.add(row.where, "event_index", previous, "an index that the search has not used before")
        previous = row["event_index"]
        if kind not in V3_KINDS:
            surprises.add(row.where, "event_kind", kind, f"one of {', '.join(sorted(V3_KINDS))}")
            continue
        try:
            if kind == "search_initialized":
                _add_root(search, payload["root"])
            elif kind == "step_started":
                step = int(payload["step"])
            elif kind == "evaluation_requested":
                ulid = payload["child_ulid"] if "child_ulid" in payload else payload["request_id"]
                requested[payload["request_id"]] = {**payload, "ulid": ulid}
                search.started_at = search.started_at or str(payload.get("started_at") or "")
                _add_child(search, ulid, payload, int(payload.get("step", step)), row, surprises)
            elif kind in ("evaluation_completed", "evaluation_failed"):
                asked = requested.get(payload["request_id"])
                if asked is None:
                    surprises.add(row.where, "payload", payload["request_id"], "a request_id that was requested before")
                elif kind == "evaluation_failed":
                    _fail(search, search.nodes[asked["ulid"]], str(payload.get("reason", "")))
                else:
                    _evaluate(search, search.nodes[asked["ulid"]], payload, row, surprises)
        except (KeyError, TypeError, ValueError) as error:
            surprises.add(
                row.where, "payload", sorted(payload), f"what '{kind}' needs ({type(error).__name__}: {error})"
            )
    return search


def _device(first: Mapping[str, Any]) -> str | None:
    hardware = first.get("hardware")
    return hardware.get("device_name") if isinstance(hardware, dict) else None


def _add_root(search: Search, root: Mapping[str, Any]) -> None:
    node = Node(root["ulid"], None, root["program_code"], 0)
    search.nodes[node.ulid] = node
    if root.get("evaluation"):
        _outcome(search, node, root["evaluation"])


def _add_child(
    search: Search, ulid: str, payload: Mapping[str, Any], step: int, row: Placed, surprises: Surprises
) -> None:
    parent = payload["parent_ulid"]
    if parent is not None and parent not in search.nodes and parent != ulid:
        surprises.add(row.where, "payload", parent, "a parent_ulid that is a node of the search")
        return
    # A resumed search dispatches its open requests again, under their old ids.
    search.nodes.setdefault(ulid, Node(ulid, parent if parent != ulid else None, payload["code"], step))


def _evaluate(search: Search, node: Node, payload: Mapping[str, Any], row: Placed, surprises: Surprises) -> None:
    search.evaluations += 1
    node.measured_at = str(payload.get("completed_at") or "")
    problem = _outcome(search, node, payload["evaluation"])
    if problem:
        surprises.add(row.where, "payload", *problem)


def _outcome(search: Search, node: Node, evaluation: Mapping[str, Any]) -> tuple[object, str] | None:
    """Set the outcome of a node; return what was found and expected if it cannot be read."""
    observation = evaluation["observation"]
    feedback = observation.get("feedback", observation)
    kind = feedback.get("kind")
    if kind == NOT_MEASURED:
        search.not_measured += 1
        return None
    if kind not in STATUS:
        return kind, f"feedback of one of {', '.join((*STATUS, NOT_MEASURED))}"
    node.status = STATUS[kind]
    if node.status != "ok":
        said = (v for k, v in feedback.items() if k != "kind" and isinstance(v, str) and v)
        node.error = " | ".join(said)[:2000]
        return None
    speedup = feedback["aggregated_speedup"] if "aggregated_speedup" in feedback else feedback["speedup"]
    if not isinstance(speedup, int | float) or not 0 < speedup < float("inf"):
        node.status = None
        return speedup, "a speedup that is finite and positive"
    node.speedup = float(speedup)
    cases = observation.get("per_case_results") or []
    node.time_us = _geomean_us([case.get("runtime_ns") for case in cases])
    node.reference_us = _geomean_us([case.get("ref_runtime_ns") for case in cases])
    return None


def _geomean_us(times: Sequence[Any]) -> float | None:
    """KernelBench's times are left out on purpose: their unit is not certain."""
    if not times or not all(isinstance(t, int | float) and t > 0 for t in times):
        return None
    return float(np.exp(np.mean(np.log(times))) / 1e3)


def _fail(search: Search, node: Node, reason: str) -> None:
    if "timeout" in reason.lower() or "timed out" in reason.lower():
        node.status, node.error = "timeout", reason[:2000]
        search.evaluations += 1
    else:
        search.not_measured += 1
