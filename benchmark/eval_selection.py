"""The balanced evaluation pairs: chosen by a first measurement, labelled by a second one at another machine start.

A row that is chosen because it read fast reads too fast on average. So the first measurement decides only which bin a
row is drawn for; the label is the second one. Nothing is slowed on purpose to fill a bin: a cell stays short instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmark.bins import BINS, bin_of
from benchmark.identity import eval_id
from benchmark.query import TEST_SPLITS
from benchmark.samples import Row

KINDS = ("reference", "parent")
ROWS = 424  # as many as in the paper's evaluation set
TASK_SHARE = 4  # no task gives more than one in four rows of a cell


@dataclass(frozen=True)
class Cell:
    """How many rows an anchor kind and bin got, of how many that there were; `short` counts what the target lacks."""

    anchor_kind: str
    bin: int
    available: int
    selected: int
    short: int


def candidate_rows(
    kernels: Iterable[Row], pairs: Iterable[Row], nodes: Iterable[Row], views: Mapping[str, str]
) -> list[Row]:
    """Return every row of the test splits that eval may hold, with `first_*` from the first and labels from the second
    measurement.

    `views` gives the code_view of each task's reference. Seeds are no candidates, and of two searches that made the
    same pair the first one gives the row.
    """
    rows: dict[str, Row] = {}
    place = _places(nodes)
    kernels = [k for k in kernels if k["split"] in TEST_SPLITS and k.get("speedup") is not None]
    reference_us = _reference_us(kernels)
    for kernel in kernels:
        node = place.get(kernel["kernel_id"])
        if node is not None and kernel.get("second_speedup") is not None:
            row = {
                "anchor_kind": "reference", "anchor_id": None, "anchor_code": views[kernel["task"]],
                "candidate_id": kernel["kernel_id"], "candidate_code": kernel["code_view"],
                "anchor_us_geomean": reference_us[kernel["task"], kernel["split"]],
            }  # fmt: skip
            _add(rows, row, kernel, node, node["operator_class"])
    for pair in pairs:
        node = place.get(pair["child_id"])
        if pair["split"] in TEST_SPLITS and node is not None and pair.get("second_speedup") is not None:
            row = {
                "anchor_kind": "parent", "anchor_id": pair["parent_id"], "anchor_code": pair["parent_code"],
                "candidate_id": pair["child_id"], "candidate_code": pair["child_code"],
                "anchor_us_geomean": pair["parent_us_geomean"],
            }  # fmt: skip
            _add(rows, row, pair, node | {"search_id": pair["search_id"]}, pair["operator_class"])
    return [rows[key] for key in sorted(rows)]


def _places(nodes: Iterable[Row]) -> dict[str, Row]:
    """The first place of each kernel that is no seed."""
    places: dict[str, Row] = {}
    seeds = set()
    for node in nodes:
        places.setdefault(node["kernel_id"], node)
        if node["origin"] == "seed":
            seeds.add(node["kernel_id"])
    return {kernel: node for kernel, node in places.items() if kernel not in seeds}


def _reference_us(kernels: Sequence[Row]) -> dict[tuple[str, str], float]:
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for kernel in kernels:
        times[kernel["task"], kernel["split"]].append(kernel["reference_us_geomean"])
    return {key: median(values) for key, values in times.items()}


def _add(rows: dict[str, Row], row: Row, measured: Row, node: Row, operator_class: str | None) -> None:
    key = eval_id(measured["task"], row["anchor_id"], row["candidate_id"])
    second = measured["second_speedup"]
    rows.setdefault(key, row | {
        "pair_id": key, "task": measured["task"], "search_id": node["search_id"], "seed_id": node["seed_id"],
        "speedup": second, "speedup_low": measured["second_speedup_low"],
        "speedup_high": measured["second_speedup_high"], "bin": int(bin_of(second)),
        "first_speedup": measured["speedup"], "first_bin": measured["bin"], "operator_class": operator_class,
        "self_describing": measured["self_describing"], "gpu": measured["gpu"], "split": measured["split"],
    })  # fmt: skip


def select(candidates: Sequence[Row], rows: int = ROWS) -> tuple[list[Row], list[Cell]]:
    """Return the chosen rows, each with its `weight`, and every cell of anchor kind and first bin.

    Each cell gets the same number of rows, the smallest with which all together reach `rows`, or all that it has; of
    a cell no task gives more than a quarter, and tasks take turns. `weight` is the number of candidates for each
    chosen row of its kind, bin and task: weighted means estimate those over all candidates.
    """
    supply: dict[tuple[str, int], dict[str, list[Row]]] = {(kind, b): defaultdict(list) for kind in KINDS for b in BINS}
    for row in sorted(candidates, key=lambda row: str(row["pair_id"])):  # a hash, so this order is as good as random
        supply[row["anchor_kind"], row["first_bin"]][row["task"]].append(row)
    target = -(-rows // len(supply))
    most = max((sum(map(len, tasks.values())) for tasks in supply.values()), default=0)
    while target < most and sum(_largest(tasks, target) for tasks in supply.values()) < rows:
        target += 1
    chosen: list[Row] = []
    cells: list[Cell] = []
    for (kind, b), tasks in supply.items():
        taken = _take_turns(tasks, _largest(tasks, target))
        chosen += [row | {"weight": len(tasks[task]) / len(part)} for task, part in taken.items() for row in part]
        selected = sum(map(len, taken.values()))
        cells.append(Cell(kind, b, sum(map(len, tasks.values())), selected, target - selected))
    return sorted(chosen, key=lambda row: str(row["pair_id"])), cells


def _largest(tasks: Mapping[str, Sequence[Row]], target: int) -> int:
    """Return the largest size up to `target` that a cell can have with no task above its share."""
    for size in range(target, 0, -1):
        if sum(min(len(rows), size // TASK_SHARE) for rows in tasks.values()) >= size:
            return size
    return 0


def _take_turns(tasks: Mapping[str, Sequence[Row]], size: int) -> dict[str, list[Row]]:
    taken: dict[str, list[Row]] = {task: [] for task in sorted(tasks)}
    cap = size // TASK_SHARE
    while sum(map(len, taken.values())) < size:
        for task, part in taken.items():
            if len(part) < min(cap, len(tasks[task])) and sum(map(len, taken.values())) < size:
                part.append(tasks[task][len(part)])
    return {task: part for task, part in taken.items() if part}


def selection_report(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the cells as the manifest keeps them, with the sum of rows and of what is short."""
    return {
        "rows": sum(cell.selected for cell in cells),
        "short": sum(cell.short for cell in cells),
        "cells": [asdict(cell) for cell in cells],
    }
