"""From rows of the release to rows of KernelCast's tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmark.bins import N_BINS, bin_of
from benchmark.code_view import code_view, language_of
from benchmark.identity import eval_id, kernel_id, normalise_newlines, pair_id
from benchmark.self_description import describes_itself
from benchmark.structure import structure_hash
from benchmark.upstream.lineage import Search
from benchmark.upstream.release import FAMILIES, PACKS, PAIR_TYPES, upstream_bin
from benchmark.upstream.source import Placed, Surprises

Row = dict[str, Any]
Stage = Callable[[str, int], Callable[[int], None]]
UNKNOWN = "unknown"
TEST, TRAIN = "test", "train"


def _silent(label: str, total: int) -> Callable[[int], None]:
    return lambda n: None


@dataclass
class Kernel:
    """One distinct kernel of the release and where it occurs."""

    kernel_id: str
    task: str
    code: str
    gpu: str = UNKNOWN
    status: str = "ok"
    error: str | None = None
    speedup: float | None = None
    time_us: float | None = None
    reference_us: float | None = None
    measured_at: str = ""
    split: str = TRAIN
    places: list[tuple[str, str]] = field(default_factory=list)  # search and id there, for kernels without an event


@dataclass
class Converted:
    """The tables of the release, and how each number came about.

    `query_of` maps the release's comparison ids to rows of eval.
    """

    rows: dict[str, list[Row]]
    query_of: dict[str, str]
    counts: dict[str, int]


class Converter:
    """Collects kernels, pairs and places of the release, each once."""

    def __init__(self, surprises: Surprises, stage: Stage = _silent) -> None:
        self.surprises = surprises
        self.stage = stage
        self.kernels: dict[str, Kernel] = {}
        self.references: dict[str, str] = {}
        self.families: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.query_of: dict[str, str] = {}
        self.eval_rows: dict[str, Row] = {}
        self.pairs: dict[str, Row] = {}
        self.nodes: dict[str, Row] = {}
        self.gpu_of_search: dict[str, str] = {}

    def convert(
        self, evals: Sequence[Placed], discovery: Sequence[Placed], pool: Sequence[Placed], searches: Sequence[Search]
    ) -> Converted:
        """Return the tables; problems go to the surprises."""
        test_searches = {row["source_search"] for row in (*evals, *discovery)}
        for row in (*evals, *discovery, *pool):
            self.gpu_of_search.setdefault(row["source_search"], row["hardware"])
        for search in searches:
            self._search(search, TEST if search.name in test_searches else TRAIN)
        for row in evals:
            self._eval(row)
        for row in pool:
            self._pool(row)
        for row in discovery:
            self._discovery(row)
        self._missing_nodes()
        return Converted(self._tables(searches), self.query_of, dict(self.counts))

    def _kernel(self, task: str, code: str, gpu: str, split: str, place: tuple[str, str] | None = None) -> Kernel:
        code = normalise_newlines(code)
        key = kernel_id(task, code)
        kernel = self.kernels.setdefault(key, Kernel(key, task, code, gpu, split=split))
        if split == TEST:
            kernel.split = TEST
        if kernel.gpu == UNKNOWN:
            kernel.gpu = gpu
        if place and place not in kernel.places:
            kernel.places.append(place)
        return kernel

    def _search(self, search: Search, split: str) -> None:
        gpu = search.hardware or self.gpu_of_search.get(search.name, UNKNOWN)
        self.families.setdefault(search.task, UNKNOWN)
        self.counts["evaluations"] += search.evaluations
        self.counts["not_measured"] += search.not_measured
        for node in search.nodes.values():
            if node.status is None:
                continue
            kernel = self._kernel(search.task, node.code, gpu, split)
            if kernel.measured_at or kernel.speedup is not None or kernel.status != "ok":
                self.counts["kernels_measured_again"] += 1
            else:
                kernel.status, kernel.error, kernel.speedup = node.status, node.error, node.speedup
                kernel.time_us, kernel.reference_us = node.time_us, node.reference_us
                kernel.measured_at = node.measured_at or UNKNOWN
            self._node(search.name, node.ulid, kernel, node.parent, node.step)

    def _node(self, search: str, ulid: str, kernel: Kernel, parent: str | None, step: int) -> None:
        key = f"{search}/{ulid}"
        self.nodes.setdefault(key, {
            "node_id": key, "kernel_id": kernel.kernel_id, "task": kernel.task, "search_id": search,
            "parent_node_id": None if parent is None else f"{search}/{parent}", "seed_id": UNKNOWN, "step": step,
            "origin": "upstream", "operator": None, "operator_class": None, "split": "",
        })  # fmt: skip

    def _measured(self, row: Placed, speedup: str, label: str) -> int:
        """Check a row's speedup and label; return the label."""
        value, found = row[speedup], row[label]
        if not value > 0:
            self.surprises.add(row.where, speedup, value, "a positive number")
            return 0
        if not 1 <= found <= N_BINS:
            self.surprises.add(row.where, label, found, "a bin from 1 to 8")
        elif found != upstream_bin(value):
            self.counts[f"{label}_differs_from_the_release_formula"] += 1
            self.surprises.note(f"{row.where}: {label} is {found}, its own formula gives {upstream_bin(value)}")
        return int(found)

    def _eval(self, row: Placed) -> None:
        task = row["pack"]
        label = self._measured(row, "aggregated_speedup", "true_bin")
        if task not in PACKS:
            self.surprises.add(row.where, "pack", task, f"one of {', '.join(PACKS)}")
        anchor = normalise_newlines(row["anchor_code"])
        self.families.setdefault(task, UNKNOWN)
        if self.references.setdefault(task, anchor) != anchor:
            self.surprises.add(row.where, "anchor_code", anchor, f"the one anchor that '{task}' has in its other rows")
        kernel = self._kernel(
            task, row["candidate_code"], row["hardware"], TEST, (row["source_search"], row["source_id"])
        )
        if kernel.speedup is None and kernel.status == "ok":
            kernel.speedup = row["aggregated_speedup"]
        self._eval_row(row, "reference", None, anchor, kernel, label, TEST, row["comparison_id"])

    def _pool(self, row: Placed) -> None:
        label = self._measured(row, "aggregated_speedup", "relative_bin")
        task, anchor = row["pack"], normalise_newlines(row["anchor_code"])
        if row["pair_type"] not in PAIR_TYPES:
            self.surprises.add(row.where, "pair_type", row["pair_type"], f"one of {', '.join(PAIR_TYPES)}")
        self.families.setdefault(task, UNKNOWN)
        place = (row["source_search"], row["source_id"])
        kernel = self._kernel(task, row["candidate_code"], row["hardware"], TRAIN, place)
        if row["pair_type"] == "seed" and self.references.get(task) == anchor:
            return self._eval_row(row, "reference", None, anchor, kernel, label, TRAIN, None)
        other = self._kernel(task, anchor, row["hardware"], TRAIN, (row["source_search"], f"{row['source_id']}/anchor"))
        kind = "parent" if row["pair_type"] == "parent_edit" else "kernel"
        return self._eval_row(row, kind, other.kernel_id, anchor, kernel, label, TRAIN, None)

    def _eval_row(
        self, row: Placed, kind: str, anchor_id: str | None, anchor: str, kernel: Kernel, label: int, split: str,
        comparison: str | None,
    ) -> None:  # fmt: skip
        key = eval_id(kernel.task, anchor_id, kernel.kernel_id)
        if comparison is not None and self.query_of.setdefault(comparison, key) != key:
            self.surprises.add(row.where, "comparison_id", comparison, "an id that no other pair of sources has")
        if key in self.eval_rows:
            self.counts["repeated_eval_pairs" if split == TEST else "repeated_rl_pairs"] += 1
            return
        speedup = row["aggregated_speedup"]
        self.eval_rows[key] = {
            "pair_id": key, "task": kernel.task, "search_id": row["source_search"], "seed_id": UNKNOWN,
            "anchor_kind": kind, "anchor_id": anchor_id, "candidate_id": kernel.kernel_id,
            "anchor_code": code_view(anchor), "candidate_code": code_view(kernel.code), "speedup": speedup,
            "bin": _bin(speedup), "weight": 1.0, "upstream_bin": label or None,
            "self_describing": describes_itself(anchor) or describes_itself(kernel.code)
            or row["source_id"].startswith("binfiller/"),
            "gpu": row["hardware"], "split": split,
        }  # fmt: skip

    def _discovery(self, row: Placed) -> None:
        label = self._measured(row, "g_speedup", "true_bin")
        task, search = row["problem_id"], row["source_search"]
        if row["benchmark_family"] not in FAMILIES:
            self.surprises.add(row.where, "benchmark_family", row["benchmark_family"], f"one of {', '.join(FAMILIES)}")
        self.families[task] = row["benchmark_family"]
        gpu = row["hardware"]
        parent = self._kernel(task, row["parent_code"], gpu, TEST, (search, row["parent_node_id"]))
        child = self._kernel(task, row["child_code"], gpu, TEST, (search, row["child_node_id"]))
        for side, kernel in (("parent", parent), ("child", child)):
            known = self.nodes.get(f"{search}/{row[f'{side}_node_id']}")
            if known is not None and known["kernel_id"] != kernel.kernel_id:
                self.surprises.add(
                    row.where, f"{side}_code", kernel.code, "the code of that node in the search's events"
                )
        self._node(search, row["parent_node_id"], parent, None, 0)
        self._node(search, row["child_node_id"], child, row["parent_node_id"], 0)
        key = pair_id(search, parent.kernel_id, child.kernel_id)
        if key in self.pairs:
            self.counts["repeated_discovery_pairs"] += 1
            return
        speedup = row["g_speedup"]
        self.pairs[key] = {
            "pair_id": key, "task": task, "search_id": search, "parent_id": parent.kernel_id,
            "child_id": child.kernel_id, "parent_code": code_view(parent.code), "child_code": code_view(child.code),
            "child_status": "ok", "speedup": speedup, "bin": _bin(speedup), "upstream_bin": label or None,
            "self_describing": describes_itself(parent.code) or describes_itself(child.code), "gpu": gpu, "split": TEST,
        }  # fmt: skip
        if child.status != "ok":
            self.surprises.add(
                row.where, "child_code", child.kernel_id, f"a kernel that ran (its search says {child.status})"
            )

    def _missing_nodes(self) -> None:
        """A kernel without an event gets the place that its row names, so that every kernel belongs to a search."""
        placed = {node["kernel_id"] for node in self.nodes.values()}
        for kernel in self.kernels.values():
            if kernel.kernel_id not in placed:
                search, name = kernel.places[0]
                self.counts["kernels_without_an_event"] += 1
                self._node(search, f"{name}#{kernel.kernel_id}", kernel, None, 0)

    def _tables(self, searches: Sequence[Search]) -> dict[str, list[Row]]:
        for node in self.nodes.values():
            node["split"] = self.kernels[node["kernel_id"]].split
            if node["parent_node_id"] not in self.nodes:
                node["parent_node_id"] = None
        return {
            "tasks": [
                {"task": task, "source": self._source(task), "family": UNKNOWN, "statement": "",
                 "reference_code": self.references.get(task, ""), "facts": "{}"}
                for task in sorted({kernel.task for kernel in self.kernels.values()} | set(self.references))
            ],
            "searches": self._searches(searches),
            "kernels": self._kernel_rows(),
            "nodes": [node for _, node in sorted(self.nodes.items())],
            "pairs": [pair for _, pair in sorted(self.pairs.items())],
            "eval": [row for _, row in sorted(self.eval_rows.items())],
        }  # fmt: skip

    def _kernel_rows(self) -> list[Row]:
        advance, rows = self.stage("converting kernels", len(self.kernels)), []
        for _, kernel in sorted(self.kernels.items()):
            rows.append(_kernel_row(kernel))
            advance(1)
        return rows

    def _source(self, task: str) -> str:
        return "gpu_mode" if task in PACKS or self.families.get(task) == "gpu_mode" else "network"

    def _searches(self, searches: Sequence[Search]) -> list[Row]:
        events = {search.name: search for search in searches}
        members: dict[str, list[Row]] = defaultdict(list)
        for node in self.nodes.values():
            members[node["search_id"]].append(node)
        rows = []
        for name in sorted(members):
            search = events.get(name)
            rows.append(
                {"search_id": name, "task": members[name][0]["task"],
                 "split": TEST if any(node["split"] == TEST for node in members[name]) else TRAIN,
                 "arm": UNKNOWN if search is None else f"v{search.version}", "mutator": "llm", "isolation": UNKNOWN,
                 "seeds": UNKNOWN, "seed": 0, "budget": 0 if search is None else search.evaluations,
                 "measured": 0 if search is None else search.evaluations, "replay_tree": False, "ended": None,
                 "started_at": UNKNOWN if search is None else search.started_at or UNKNOWN}
            )  # fmt: skip
        return rows


def _bin(speedup: float) -> int | None:
    return int(bin_of(speedup)) if speedup > 0 else None


def _kernel_row(kernel: Kernel) -> Row:
    versions = ("driver", "cuda", "torch", "triton", "harness_version")
    return {
        "kernel_id": kernel.kernel_id, "task": kernel.task, "language": language_of(kernel.code), "code": kernel.code,
        "code_view": code_view(kernel.code), "structure_hash": structure_hash(kernel.code),
        "self_describing": describes_itself(kernel.code), "status": kernel.status, "error": kernel.error,
        "speedup": kernel.speedup, "bin": None if kernel.speedup is None else _bin(kernel.speedup),
        "time_us_geomean": kernel.time_us, "reference_us_geomean": kernel.reference_us, "isolation": UNKNOWN,
        "n_processes": 1, "gpu": kernel.gpu, **dict.fromkeys(versions, UNKNOWN),
        "measured_at": kernel.measured_at or UNKNOWN, "split": kernel.split,
    }  # fmt: skip
