"""What has to hold between the rows of a packaged dataset: ids, references, intervals and splits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmark.identity import eval_id, kernel_id, pair_id
from benchmark.query import TEST_SPLITS
from benchmark.records import KEYS, TAUS

Row = dict[str, Any]
# (table, column, table that it refers to, column there)
REFERENCES = (
    ("searches", "task", "tasks", "task"),
    ("kernels", "task", "tasks", "task"),
    ("nodes", "kernel_id", "kernels", "kernel_id"),
    ("nodes", "parent_node_id", "nodes", "node_id"),
    ("nodes", "search_id", "searches", "search_id"),
    ("measurements", "kernel_id", "kernels", "kernel_id"),
    ("measurements", "session_id", "sessions", "session_id"),
    ("pairs", "parent_id", "kernels", "kernel_id"),
    ("pairs", "child_id", "kernels", "kernel_id"),
    ("pairs", "search_id", "searches", "search_id"),
    ("same_program", "parent_id", "kernels", "kernel_id"),
    ("same_program", "child_id", "kernels", "kernel_id"),
    ("same_program", "search_id", "searches", "search_id"),
    ("eval", "anchor_id", "kernels", "kernel_id"),
    ("eval", "candidate_id", "kernels", "kernel_id"),
    ("eval", "search_id", "searches", "search_id"),
    ("events", "search_id", "searches", "search_id"),
)


@dataclass(frozen=True)
class Place:
    """A row of a file."""

    file: str
    row: int

    def problem(self, field: str, found: object, expected: str) -> str:
        """Return the line that names the file, the row and the field."""
        return f"{self.file}, row {self.row}, field '{field}': found {found!r}, expected {expected}"


Rows = list[tuple[Place, Row]]
Tables = Mapping[str, Sequence[tuple[Place, Row]]]


def cross_check(tables: Tables, broken: Collection[str], manifest: Mapping[str, Any]) -> list[str]:
    """Return one line for each row that contradicts another; tables in `broken` prove nothing about references.

    A dataset with `source` other than `measured` has no intervals, and its splits are those of its origin.
    """
    measured = manifest.get("source", "measured") == "measured"
    problems = [
        *_duplicates(tables),
        *_dangling(tables, broken),
        *_kernels(tables, measured),
        *_edges(tables, measured),
    ]
    problems += _eval(tables, measured)
    if measured:
        problems += _lineage(tables, manifest)
    return problems


def _duplicates(tables: Tables) -> Iterator[str]:
    for name in ("kernels", "nodes", "pairs", "same_program", "eval"):
        seen: dict[tuple[Any, ...], Place] = {}
        for place, row in tables[name]:
            key = tuple(row[column] for column in KEYS[name])
            first = seen.setdefault(key, place)
            if first is not place:
                found = key if len(key) > 1 else key[0]
                yield place.problem(", ".join(KEYS[name]), found, f"an id not used in {first.file}, row {first.row}")


def _values(rows: Iterable[tuple[Place, Row]], column: str) -> set[Any]:
    return {row[column] for _, row in rows}


def _dangling(tables: Tables, broken: Collection[str]) -> Iterator[str]:
    for table, column, other, key in REFERENCES:
        if other in broken:
            continue
        known = _values(tables[other], key)
        reported: set[Any] = set()
        for place, row in tables[table]:
            value = row[column]
            if value is not None and value not in known and value not in reported:
                reported.add(value)
                yield place.problem(column, value, f"a {key} of table {other}")


def _kernels(tables: Tables, measured: bool) -> Iterator[str]:
    stands: dict[str, tuple[Place, str]] = {}
    for place, row in tables["kernels"]:
        expected = kernel_id(row["task"], row["code"])
        if row["kernel_id"] != expected:
            yield place.problem("kernel_id", row["kernel_id"], f"'{expected}', the hash of its task and code")
        yield from _interval(place, row, measured)
        if measured:
            side = "test" if row["split"] in TEST_SPLITS else row["split"]
            other, known = stands.setdefault(row["structure_hash"], (place, side))
            if known != side:
                yield place.problem("structure_hash", row["structure_hash"], f"none of {other.file}, row {other.row}")


def _edges(tables: Tables, measured: bool) -> Iterator[str]:
    kernels = {row["kernel_id"]: row for _, row in tables["kernels"]}
    for place, row in (*tables["pairs"], *tables["same_program"]):
        expected = pair_id(row["search_id"], row["parent_id"], row["child_id"])
        if row["pair_id"] != expected:
            yield place.problem("pair_id", row["pair_id"], f"'{expected}', the hash of its search, parent and child")
        yield from _interval(place, row, measured)
        for side in ("parent", "child"):
            yield from _side(place, row, side, kernels.get(row[f"{side}_id"]), measured)
        child = kernels.get(row["child_id"])
        if child is not None and child["status"] != row["child_status"]:
            yield place.problem("child_status", row["child_status"], f"'{child['status']}', the status of that kernel")
        if row["speedup_low"] is not None:
            for name, tau in TAUS.items():
                resolved = not row["speedup_low"] <= tau <= row["speedup_high"]
                if row[f"resolved_{name}"] != resolved:
                    yield place.problem(f"resolved_{name}", row[f"resolved_{name}"], f"{resolved}, by its interval")


def _side(place: Place, row: Row, side: str, kernel: Row | None, measured: bool) -> Iterator[str]:
    if kernel is None:
        return
    if measured and kernel["split"] != row["split"]:
        yield place.problem(f"{side}_id", row[f"{side}_id"], f"a kernel of split '{row['split']}'")
    if kernel["code_view"] != row[f"{side}_code"]:
        yield place.problem(f"{side}_code", row[f"{side}_code"][:40], "the code_view of that kernel")


def _eval(tables: Tables, measured: bool) -> Iterator[str]:
    kernels = {row["kernel_id"]: row for _, row in tables["kernels"]}
    for place, row in tables["eval"]:
        expected = eval_id(row["task"], row["anchor_id"], row["candidate_id"])
        if row["pair_id"] != expected:
            yield place.problem("pair_id", row["pair_id"], f"'{expected}', the hash of its task, anchor and candidate")
        if (row["anchor_id"] is None) != (row["anchor_kind"] == "reference"):
            yield place.problem("anchor_id", row["anchor_id"], f"what anchor_kind '{row['anchor_kind']}' needs")
        yield from _interval(place, row, measured)
        for side in ("anchor", "candidate"):
            yield from _side(place, row, side, kernels.get(row[f"{side}_id"]), measured)


def _interval(place: Place, row: Row, measured: bool) -> Iterator[str]:
    low, speedup, high = row["speedup_low"], row["speedup"], row["speedup_high"]
    if low is None and high is None and (speedup is None or not measured):
        return
    if speedup is None:
        yield place.problem("speedup_low", low, "null, because speedup is null")
    elif low is None or high is None or not low <= speedup <= high:
        yield place.problem("speedup", speedup, f"a value within speedup_low {low} and speedup_high {high}")


def _lineage(tables: Tables, manifest: Mapping[str, Any]) -> Iterator[str]:
    """Splits follow lineage: a seed, a search and a chain of parents each stay on one side."""
    splits = manifest.get("splits", {})
    seeds, unseen = splits.get("seeds", {}), set(splits.get("unseen_tasks", ()))
    split_of_search = {row["search_id"]: row["split"] for _, row in tables["searches"]}
    nodes = {row["node_id"]: row for _, row in tables["nodes"]}
    for place, row in tables["nodes"]:
        allowed = seeds.get(row["task"], {}).get(row["seed_id"])
        if allowed != row["split"]:
            yield place.problem(
                "seed_id", row["seed_id"], f"a seed of split '{row['split']}' (the manifest: {allowed})"
            )
        if split_of_search.get(row["search_id"], row["split"]) != row["split"]:
            yield place.problem("search_id", row["search_id"], f"a search of split '{row['split']}'")
        parent = nodes.get(row["parent_node_id"])
        if parent is not None and (parent["search_id"], parent["seed_id"]) != (row["search_id"], row["seed_id"]):
            yield place.problem("parent_node_id", row["parent_node_id"], "a node of the same search and seed")
    for place, row in tables["kernels"]:
        if row["task"] in unseen and row["split"] != "test_unseen_task":
            yield place.problem("split", row["split"], f"'test_unseen_task', because task '{row['task']}' is unseen")
