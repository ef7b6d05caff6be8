"""From a search and its measured kernels to labelled parent-child pairs, and to pairs that are one program twice."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmark.event_log import Measured, Node, SearchLog
from benchmark.identity import pair_id
from benchmark.labels import Labeller, arrays, by_case, first_measured, interval_columns
from benchmark.records import CHANGED_LOG2, TAUS
from benchmark.same_program import same_program
from benchmark.samples import Row, is_primary
from benchmark.self_description import describes_itself
from benchmark.speedup import geomean_us, kernel_speedup, pair_speedup


@dataclass(frozen=True)
class Edge:
    """A measured child of a search: the row it makes, for which table, or (`row` is None) why it makes none."""

    pair_id: str
    row: Row | None
    table: str = "pairs"  # or same_program
    reason: str = ""


def pair_rows(labeller: Labeller, log: SearchLog) -> Iterator[Edge]:
    """Yield an Edge for every measured child of a search, in the order of measurement.

    A pair is relative to the parent's own measurement beside this child (role `anchor`, same step), because the first
    one is biased: the parent was selected for reading fast. A child that compiles to its parent's program measures the
    noise alone and goes to the table same_program.
    """
    first = first_measured(log)
    anchors: dict[tuple[str, int], list[Measured]] = defaultdict(list)
    for event in log.measured:
        if event.role == "anchor" and is_primary(log, event):
            anchors[event.node_id, event.step].append(event)
    frontier = _frontier(labeller, log, first)
    for node_id, event in sorted(first.items(), key=lambda item: item[1].index):
        node = log.nodes[node_id]
        if node.parent is None:
            continue
        parent = log.nodes[node.parent]
        key = pair_id(log.search_id, parent.kernel_id, node.kernel_id)
        if parent.node_id not in first:
            yield Edge(key, None, reason="the parent was not measured")
            continue
        same = same_program(_program(first[parent.node_id], parent), _program(event, node))
        before = [a for a in anchors[parent.node_id, node.step] if a.record["cases"]]
        row, reason = _pair_row(labeller, log, parent, node, before or [first[parent.node_id]], event)
        if row is not None:
            row["frontier"] = frontier.get(node_id) if row["child_status"] == "ok" else None
        yield Edge(key, row, "same_program" if same else "pairs", reason)


def _program(event: Measured, node: Node) -> tuple[str, str | None]:
    return node.code, event.record.get("facts", {}).get("cubin_hash")


def _frontier(labeller: Labeller, log: SearchLog, first: Mapping[str, Measured]) -> dict[str, bool]:
    best, result = 0.0, {}
    for node_id, event in sorted(first.items(), key=lambda item: item[1].index):
        timing = labeller.timings[event.kernel_id].get((log.search_id, event.index))
        if timing is None:
            continue
        cases = [(case, [s["candidate"]], [s["reference"]]) for case, s in sorted(timing.samples.items())]
        speedup = kernel_speedup(cases, labeller.noise, log.task["name"]).speedup
        result[node_id] = speedup > best
        best = max(best, speedup)
    return result


def _pair_row(
    labeller: Labeller, log: SearchLog, parent: Node, child: Node, before: Sequence[Measured], after: Measured
) -> tuple[Row | None, str]:
    task = log.task["name"]
    times = labeller.timings[parent.kernel_id]
    above = [(e.process, times[log.search_id, e.index]) for e in before if (log.search_id, e.index) in times]
    if not above:
        return None, "the parent has no time"
    status, _ = labeller.status(child.kernel_id)
    methods = above[0][1].method
    parent_cases = {c: arrays(s["candidate"]) for c, s in sorted(by_case(above, methods).items())}
    row: Row = {
        "pair_id": pair_id(log.search_id, parent.kernel_id, child.kernel_id), "task": task,
        "search_id": log.search_id, "parent_id": parent.kernel_id, "child_id": child.kernel_id,
        "parent_code": labeller.view(parent.kernel_id, parent.code),
        "child_code": labeller.view(child.kernel_id, child.code), "child_status": status,
        "operator": child.operator, "operator_class": child.operator_class,
        "parent_us_geomean": geomean_us(parent_cases), "undo": _is_undo(labeller, log, parent, child),
        "self_describing": describes_itself(parent.code) or describes_itself(child.code),
        "gpu": log.sessions[after.record["session_id"]]["gpu"],
    }  # fmt: skip
    if status != "ok":
        return row, ""
    child_timing = labeller.timings[child.kernel_id].get((log.search_id, after.index))
    if child_timing is None:
        return None, "the child has no time"
    child_cases = by_case([(after.process, child_timing)], methods)
    common = {c: arrays(s["candidate"]) for c, s in child_cases.items() if c in parent_cases}
    if not common:
        return None, "parent and child share no case timed by the same method"
    found = pair_speedup({c: parent_cases[c] for c in common}, common, labeller.noise, task)
    row |= interval_columns(found)
    row |= {f"resolved_{t}": not found.low <= tau <= found.high for t, tau in TAUS.items()}
    row["changed"] = not found.low <= 1 <= found.high and abs(math.log2(found.speedup)) > CHANGED_LOG2
    return row | labeller.second_speedup(child.kernel_id, parent.kernel_id), ""


def _is_undo(labeller: Labeller, log: SearchLog, parent: Node, child: Node) -> bool:
    view = labeller.view(child.kernel_id, child.code)
    ancestor = parent.parent
    while ancestor is not None:
        node = log.nodes[ancestor]
        if labeller.view(node.kernel_id, node.code) == view:
            return True
        ancestor = node.parent
    return False
