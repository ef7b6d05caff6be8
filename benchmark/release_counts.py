"""The counts by which a release is judged: kernels, searches, tasks, discoveries, eval, repeated measurements."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmark.data_access import load_table
from benchmark.eval_selection import ROWS
from benchmark.locate import DEFAULT_DATASET, DataError
from benchmark.near_duplicate import THRESHOLD, Signature, minhash_signature, most_alike
from benchmark.query import TEST_SPLITS
from benchmark.records import TAUS

Row = Mapping[str, Any]
NEAR_BEST = 0.7  # a parent slower than this share of its best measured ancestor: its child may only undo a bad edit
LEAST_TREE = 1200


def release_counts(dataset: str = DEFAULT_DATASET) -> dict[str, Any]:
    """Return the counts of a dataset that say how large and how sound it is; raises DataError for an unknown one."""
    kernels = _rows(
        "kernels", dataset, ["kernel_id", "task", "status", "structure_hash", "split", "speedup", "second_speedup"]
    )
    nodes = _rows("nodes", dataset, ["node_id", "kernel_id", "task", "search_id", "parent_node_id", "origin", "split"])
    searches = _rows("searches", dataset, ["search_id", "task", "split", "seeds", "arm", "measured", "replay_tree"])
    ok = [row for row in kernels if row["status"] == "ok"]
    in_test = [row for row in kernels if row["split"] in TEST_SPLITS]
    per_task, test_per_task = (
        Counter(row["task"] for row in ok),
        Counter(r["task"] for r in ok if r["split"] in TEST_SPLITS),
    )
    llm = {row["kernel_id"] for row in nodes if row["origin"] == "llm"}
    return {
        "kernels": len(kernels),
        "ok_kernels": len(ok),
        "distinct_structures_ok": len({row["structure_hash"] for row in ok}),
        "searches": len(searches),
        "tasks": len({row["task"] for row in kernels}),
        "ok_per_task": dict(sorted(per_task.items())),
        "least_ok_of_a_task": min(per_task.values(), default=0),
        "least_ok_of_a_task_in_test": min((test_per_task[task] for task in per_task), default=0),
        "llm": _llm([row for row in ok if row["kernel_id"] in llm]),
        "test_searches": _test_searches(searches),
        "replay_trees": _replay_trees(searches, nodes),
        "measured_again_in_test": _share(sum(r["second_speedup"] is not None for r in in_test if r["status"] == "ok"),
                                         sum(r["status"] == "ok" for r in in_test)),
        "measured_at_both_isolation_levels": _both_levels(dataset, len(kernels)),
        "test_pairs": _test_pairs(dataset, kernels, nodes),
        "same_program_pairs": len(_rows("same_program", dataset, ["pair_id"])),
        "eval": _eval(dataset),
    }  # fmt: skip


def _rows(table: str, dataset: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a table, none if the dataset has no such table or its samples are not here."""
    try:
        rows: list[dict[str, Any]] = load_table(table, None, dataset, columns).to_pylist()
    except (DataError, FileNotFoundError):
        return []
    return rows


def _share(part: int, whole: int) -> dict[str, Any]:
    return {"rows": part, "of": whole, "share": part / whole if whole else None}


def _llm(kernels: Sequence[Row]) -> dict[str, int]:
    return {
        "ok_kernels": len(kernels),
        "tasks": len({row["task"] for row in kernels}),
        "in_test": sum(row["split"] in TEST_SPLITS for row in kernels),
        "distinct_structures": len({row["structure_hash"] for row in kernels}),
    }


def _test_searches(searches: Sequence[Row]) -> dict[str, int]:
    """The least number, over the tasks, of test searches and of different seed sets among them."""
    of_task: dict[str, list[frozenset[str]]] = defaultdict(list)
    for row in searches:
        if row["split"] in TEST_SPLITS:
            of_task[row["task"]].append(frozenset(row["seeds"].split(",")))
    tasks = {row["task"] for row in searches}
    return {
        "searches": sum(map(len, of_task.values())),
        "least_of_a_task": min((len(of_task[task]) for task in tasks), default=0),
        "least_disjoint_seed_sets": min((_disjoint(of_task[task]) for task in tasks), default=0),
    }


def _disjoint(sets: Sequence[frozenset[str]]) -> int:
    taken: list[frozenset[str]] = []
    for seeds in sorted(set(sets), key=lambda s: (len(s), sorted(s))):
        if all(not seeds & other for other in taken):
            taken.append(seeds)
    return len(taken)


def _replay_trees(searches: Sequence[Row], nodes: Sequence[Row]) -> dict[str, Any]:
    sizes = Counter(node["search_id"] for node in nodes)
    trees = [row for row in searches if row["replay_tree"]]
    children = Counter(node["parent_node_id"] for node in nodes if node["parent_node_id"] is not None)
    of_tree = {row["search_id"] for row in trees}
    expanded = [children[n["node_id"]] for n in nodes if n["search_id"] in of_tree and children[n["node_id"]]]
    return {
        "trees": len(trees),
        "tasks": len({row["task"] for row in trees}),
        "large": len({row["task"] for row in trees if sizes[row["search_id"]] >= LEAST_TREE}),
        "kernels": {row["search_id"]: sizes[row["search_id"]] for row in trees},
        "median_children": float(np.median(expanded)) if expanded else None,
    }


def _both_levels(dataset: str, kernels: int) -> dict[str, Any]:
    level = {row["session_id"]: row["isolation"] for row in _rows("sessions", dataset, ["session_id", "isolation"])}
    found: dict[str, set[str]] = defaultdict(set)
    try:
        table = load_table("measurements", None, dataset, ["kernel_id", "session_id"])
    except (DataError, FileNotFoundError):
        return _share(0, kernels)
    for row in table.group_by(["kernel_id", "session_id"]).aggregate([]).to_pylist():
        found[row["kernel_id"]].add(level[row["session_id"]])
    return _share(sum(len(levels) > 1 for levels in found.values()), kernels)


def _test_pairs(dataset: str, kernels: Sequence[Row], nodes: Sequence[Row]) -> dict[str, Any]:
    columns = ["task", "search_id", "parent_id", "child_id", "speedup", "resolved_141", "changed", "frontier", "undo",
               "split"]  # fmt: skip
    pairs = [row for row in _rows("pairs", dataset, columns) if row["split"] in TEST_SPLITS]
    found = [row for row in pairs if row["resolved_141"] and row["speedup"] > TAUS["141"]]
    lineage = _Lineage(dataset, kernels, nodes)
    near_best = [row for row in found if lineage.parent_is_near_best(row)]
    parents = Counter(row["parent_id"] for row in found)
    return {
        "pairs": len(pairs),
        "failed": sum(row["speedup"] is None for row in pairs),
        "resolved_and_changed": sum(bool(row["resolved_141"] and row["changed"]) for row in pairs),
        "resolved_discoveries": len(found),
        "with_parent_near_best": len(near_best),
        "and_new_structure": sum(not lineage.repeats_a_structure(row) for row in near_best),
        "and_no_near_copy": sum(not lineage.is_near_copy(row) for row in near_best),
        "discovery_parents": len(parents),
        "discovery_tasks": len({row["task"] for row in found}),
        "most_of_one_parent": max(parents.values(), default=0),
        "frontier_discoveries": sum(bool(row["frontier"]) for row in found),
        "undo": sum(bool(row["undo"]) for row in pairs),
        "undo_discoveries": sum(bool(row["undo"]) for row in found),
    }


class _Lineage:
    """The ancestors above the parent of a pair, and what the child has in common with them."""

    def __init__(self, dataset: str, kernels: Sequence[Row], nodes: Sequence[Row]) -> None:
        self._speedup = {row["kernel_id"]: row["speedup"] for row in kernels}
        self._structure = {row["kernel_id"]: row["structure_hash"] for row in kernels}
        self._by_id = {node["node_id"]: node for node in nodes}
        self._place = {(node["search_id"], node["kernel_id"]): node for node in reversed(nodes)}
        self._views = {
            row["kernel_id"]: row["code_view"] for row in _rows("kernels", dataset, ["kernel_id", "code_view"])
        }
        self._signatures: dict[str, Signature] = {}

    def _ancestors(self, row: Row) -> list[str]:
        found = []
        node = self._by_id.get(self._place[row["search_id"], row["parent_id"]]["parent_node_id"])
        while node is not None:
            found.append(node["kernel_id"])
            node = self._by_id.get(node["parent_node_id"])
        return found

    def parent_is_near_best(self, row: Row) -> bool:
        """Whether the parent is no slower than NEAR_BEST of its best measured ancestor."""
        own = self._speedup[row["parent_id"]]
        best = max((self._speedup[k] or 0.0 for k in self._ancestors(row)), default=0.0)
        return own is not None and own >= NEAR_BEST * best

    def repeats_a_structure(self, row: Row) -> bool:
        """Whether an ancestor above the parent has the child's structure."""
        return self._structure[row["child_id"]] in {self._structure[k] for k in self._ancestors(row)}

    def is_near_copy(self, row: Row) -> bool:
        """Whether the child is a near-duplicate of an ancestor above the parent."""
        ancestors = self._ancestors(row)
        if not ancestors:
            return False
        best, _ = most_alike(self._signature(row["child_id"])[None], np.array([self._signature(k) for k in ancestors]))
        return bool(best[0] >= THRESHOLD)

    def _signature(self, kernel_id: str) -> Signature:
        structure = self._structure[kernel_id]
        if structure not in self._signatures:
            self._signatures[structure] = minhash_signature(self._views[kernel_id])
        return self._signatures[structure]


def _eval(dataset: str) -> dict[str, Any]:
    rows = _rows("eval", dataset, ["anchor_kind", "first_bin", "task"])
    cells = Counter((row["anchor_kind"], row["first_bin"]) for row in rows)
    largest = Counter((row["anchor_kind"], row["first_bin"], row["task"]) for row in rows)
    share = max((n / cells[kind, b] for (kind, b, _), n in largest.items()), default=None)
    return {
        "pairs": len(rows),
        "wanted": ROWS,
        "cells": [{"anchor_kind": kind, "bin": b, "rows": n} for (kind, b), n in sorted(cells.items(), key=str)],
        "largest_share_of_a_task_in_a_cell": share,
    }
