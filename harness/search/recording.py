"""What a dataset measured for one task: outcomes by kernel, and the children that its searches proposed for each."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.data_access import DataError, dataset_path, load_table
from benchmark.event_log import LogError, SearchLog, find_logs, read_search
from harness.measure.result import CaseTimes, Measurement
from harness.search.mutate.proposal import Proposal

ALL_SPLITS = "all"


@dataclass(frozen=True)
class Recording:
    """Measured kernels of one task and split; children stand in the order of their proposal, seeds by name."""

    task: str
    description: Mapping[str, Any]
    gpu: str
    seeds: Mapping[str, str]
    measurements: Mapping[str, Measurement]  # kernel_id -> its first measurement as a candidate
    children: Mapping[str, tuple[Proposal, ...]]  # kernel_id of the parent -> children

    @property
    def digest(self) -> str:
        """A hash of which kernels were recorded under which parents: another recording is another search."""
        rows = [f"{parent}:{','.join(c.code for c in kids)}" for parent, kids in sorted(self.children.items())]
        return hashlib.sha256("\n".join([*sorted(self.measurements), *rows]).encode()).hexdigest()[:12]


def load_recording(dataset: str, task: str, split: str = "test", searches: Iterable[str] | None = None) -> Recording:
    """Return what a dataset recorded for a task in a split (`all`: in every split), or in some of its searches.

    Reads the raw logs where they are; a wheel has the tables only, whose speedups combine all processes. Raises
    DataError, naming what there is, for a task or split without a measured kernel.
    """
    folder = dataset_path(dataset)
    wanted = None if searches is None else set(searches)
    if (folder / "raw").is_dir():
        paths = [p for p in find_logs(folder / "raw") if wanted is None or p.parent.name in wanted]
        firsts = [(path, _first_event(path)) for path in paths]
        _require_task(dataset, task, {first["task"]["name"] for _, first in firsts})
        logs = [read_search(path) for path, first in firsts if _matches(first, task, split)]
        if logs:
            return recording_of(logs)
    else:
        found = _from_tables(dataset, task, split, wanted)
        if found is not None:
            return found
    raise DataError(f"dataset '{dataset}' has no search of task '{task}' in split '{split}'")


def _first_event(path: Path) -> Mapping[str, Any]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rb") as file:
            event: Mapping[str, Any] = json.loads(file.readline())
            assert event["task"]["name"] and event["config"]["split"]
    except (OSError, ValueError, KeyError, TypeError, AssertionError, EOFError):
        raise LogError(f"{path}, line 1: the first event must be 'search_started' with a task and a split") from None
    return event


def _matches(first: Mapping[str, Any], task: str, split: str) -> bool:
    return first["task"]["name"] == task and split in (ALL_SPLITS, first["config"]["split"])


def _require_task(dataset: str, task: str, known: set[str]) -> None:
    if task not in known:
        raise DataError(f"dataset '{dataset}' has no task '{task}'; it has: {', '.join(sorted(known)) or 'none'}")


def recording_of(logs: Iterable[SearchLog]) -> Recording:
    """Return the recording of searches of one task; equal kernels of several searches are one."""
    logs = list(logs)
    seeds: dict[str, str] = {}
    measurements: dict[str, Measurement] = {}
    children: dict[str, dict[str, Proposal]] = {}
    for log in logs:
        primary = {s for s, session in log.sessions.items() if session.get("role") != "second"}
        for event in log.measured:
            if event.role == "candidate" and event.record["session_id"] in primary:
                measurements.setdefault(event.kernel_id, Measurement.from_json(event.record))
        for node in log.nodes.values():
            if node.kernel_id not in measurements:
                continue
            if node.parent is None:
                seeds.setdefault(node.seed_id, node.code)
            else:
                child = Proposal(node.code, node.operator or "", node.operator_class or "", node.origin, node.language)
                children.setdefault(log.nodes[node.parent].kernel_id, {}).setdefault(node.kernel_id, child)
    gpu = next((s["gpu"] for log in logs for s in log.sessions.values()), "unknown")
    kept = {parent: tuple(kids.values()) for parent, kids in children.items()}
    return Recording(logs[0].task["name"], logs[0].task, gpu, seeds, measurements, kept)


def _from_tables(dataset: str, task: str, split: str, searches: set[str] | None) -> Recording | None:
    which = None if split == ALL_SPLITS else split
    tasks = {row["task"]: row for row in load_table("tasks", None, dataset).to_pylist()}
    _require_task(dataset, task, set(tasks))
    kernels = {r["kernel_id"]: r for r in load_table("kernels", which, dataset).to_pylist() if r["task"] == task}
    nodes = [r for r in load_table("nodes", which, dataset).to_pylist() if r["task"] == task]
    nodes = [r for r in nodes if r["kernel_id"] in kernels and (searches is None or r["search_id"] in searches)]
    if not nodes:
        return None
    of_node = {row["node_id"]: row["kernel_id"] for row in nodes}
    seeds: dict[str, str] = {}
    children: dict[str, dict[str, Proposal]] = {}
    for row in nodes:
        code, parent = kernels[row["kernel_id"]]["code"], of_node.get(row["parent_node_id"])
        if row["origin"] == "seed":
            seeds.setdefault(row["seed_id"], code)
        elif parent is not None:
            language = kernels[row["kernel_id"]]["language"]
            child = Proposal(code, row["operator"] or "", row["operator_class"] or "", row["origin"], language)
            children.setdefault(parent, {}).setdefault(row["kernel_id"], child)
    facts = {**tasks[task], **json.loads(tasks[task]["facts"]), "name": task}
    measurements = {k: _measurement(row) for k, row in kernels.items()}
    kept = {parent: tuple(kids.values()) for parent, kids in children.items()}
    return Recording(task, facts, next(iter(kernels.values()))["gpu"], seeds, measurements, kept)


def _measurement(row: Mapping[str, Any]) -> Measurement:
    """Return what a row of the kernels table says, its times as one case: their geometric mean over the cases."""
    cases: tuple[CaseTimes, ...] = ()
    if row["speedup"] is not None:
        candidate, reference = 1e3 * row["time_us_geomean"], 1e3 * row["reference_us_geomean"]
        cases = (CaseTimes("geometric mean", (candidate,), (0,), (reference,), (1,), row["timing_method"]),)
    return Measurement(
        row["kernel_id"], row["task"], row["status"], error=row["error"] or "", cases=cases, compile_s=row["compile_s"],
        check_s=row["check_s"], timing_s=row["timing_s"], isolation=row["isolation"], measured_at=row["measured_at"],
    )  # fmt: skip
