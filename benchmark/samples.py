"""The kernels of a set of searches with all their measurements, and the samples of them that a dataset keeps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmark.event_log import Measured, SearchLog
from benchmark.records import TABLES
from benchmark.speedup import LAUNCH_BOUND, is_launch_bound

Row = dict[str, Any]
Samples = npt.NDArray[np.float64]
MAX_SAMPLES = 32
SIDES = ("candidate", "reference")
BEYOND_MAX = f"beyond {MAX_SAMPLES} samples of a process, case and side"
OF_LAUNCHES = f"launch-bound: both sides take less than {LAUNCH_BOUND:g} times an empty kernel"


@dataclass
class Timing:
    """The kept samples of one measurement, by case and side, and the method of each case."""

    samples: dict[str, dict[str, Samples]] = field(default_factory=dict)
    method: dict[str, str] = field(default_factory=dict)


@dataclass
class Kernel:
    """One distinct kernel with all its measurements: those as a candidate, then those as an anchor, in time order."""

    kernel_id: str
    task: str
    language: str
    code: str
    measured: list[tuple[SearchLog, Measured]] = field(default_factory=list)


def gather(logs: Sequence[SearchLog]) -> dict[str, Kernel]:
    """Return the kernels that were measured in a primary session, by id."""
    kernels: dict[str, Kernel] = {}
    for log in logs:
        for event in log.measured:
            node = log.nodes[event.node_id]
            kernel = kernels.setdefault(
                event.kernel_id, Kernel(event.kernel_id, log.task["name"], node.language, node.code)
            )
            kernel.measured.append((log, event))
    for kernel in kernels.values():
        kernel.measured.sort(
            key=lambda m: (m[1].role != "candidate", m[1].record["measured_at"], m[0].search_id, m[1].index)
        )
    return {k: v for k, v in sorted(kernels.items()) if any(is_primary(log, event) for log, event in v.measured)}


def is_primary(log: SearchLog, event: Measured) -> bool:
    """Return whether a measurement may make labels; those of second sessions serve the noise ceiling only."""
    role: str = log.sessions[event.record["session_id"]]["role"]
    return role == "primary"


def thin(kernel: Kernel) -> tuple[dict[str, list[Any]], dict[tuple[str, int], Timing], Counter[str]]:
    """Return a kernel's rows of the measurements table by column, {(search_id, event index): Timing} of the same
    samples, and how many samples were left out, by reason: at most MAX_SAMPLES stay of a process, case and side, taken
    evenly over the recorded order, and none of a launch-bound case.
    """
    columns: dict[str, list[Any]] = {name: [] for name in TABLES["measurements"]}
    timings: dict[tuple[str, int], Timing] = defaultdict(Timing)
    left_out: Counter[str] = Counter()
    groups: dict[tuple[str, int, str], list[tuple[SearchLog, Measured, Mapping[str, Any]]]] = defaultdict(list)
    for log, event in kernel.measured:
        empty_ns = log.sessions[event.record["session_id"]].get("empty_kernel_ns", {})
        for case in event.record["cases"]:
            if is_launch_bound(case["candidate_ns"], case["reference_ns"], empty_ns.get(case["method"])):
                left_out[OF_LAUNCHES] += sum(len(case[f"{side}_ns"]) for side in SIDES)
                continue
            groups[(*event.process, case["case_id"])].append((log, event, case))
    for (session, process, case_id), members in sorted(groups.items()):
        for side in SIDES:
            times: list[tuple[int, float, int]] = []
            base = 0
            for position, (_, _, case) in enumerate(members):
                order = sorted(zip(case[f"{side}_order"], case[f"{side}_ns"], strict=True))
                times += [(base + place, time, position) for place, time in order]
                base += 1 + max(max(case[f"{s}_order"]) for s in SIDES)
            kept = np.unique(np.linspace(0, len(times) - 1, min(len(times), MAX_SAMPLES)).round().astype(int))
            left_out[BEYOND_MAX] += len(times) - len(kept)
            by_member: dict[int, list[float]] = defaultdict(list)
            for index in kept:
                by_member[times[index][2]].append(times[index][1])
            fixed = {"session_id": session, "process": process, "kernel_id": kernel.kernel_id, "case_id": case_id,
                     "side": side}  # fmt: skip
            for name, value in fixed.items():
                columns[name] += [value] * len(kept)
            columns["repetition"] += range(len(kept))
            columns["order"] += [times[index][0] for index in kept]
            columns["time_ns"] += [float(times[index][1]) for index in kept]
            for position, (log, event, case) in enumerate(members):
                timing = timings[log.search_id, event.index]
                timing.method[case_id] = case["method"]
                timing.samples.setdefault(case_id, {})[side] = np.array(by_member[position])
    return columns, dict(timings), +left_out
