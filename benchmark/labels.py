"""From the samples of measured kernels to labelled rows: kernels, and parent-child pairs, with their speedups."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from benchmark.bins import bin_of
from benchmark.code_view import code_view
from benchmark.event_log import Measured, Node, SearchLog
from benchmark.identity import pair_id
from benchmark.records import CHANGED_LOG2, TAUS
from benchmark.samples import SIDES, Kernel, Row, Samples, Timing, is_primary
from benchmark.speedup import Interval, Noise, estimate_noise, geomean_us, kernel_speedup, pair_speedup

Processes = dict[tuple[str, int], list[Samples]]
# From least to most damning: what a kernel is called whose measurements disagree.
SEVERITY = ("ok", "compile", "oom", "timeout", "runtime", "incorrect", "rejected")


def _by_case(
    measured: Iterable[tuple[tuple[str, int], Timing]], methods: Mapping[str, str] | None = None
) -> dict[str, dict[str, Processes]]:
    """Return case -> side -> process -> samples; with `methods`, only of the cases that were timed by that method."""
    result: dict[str, dict[str, Processes]] = {}
    for process, timing in measured:
        for case_id, sides in timing.samples.items():
            if methods is not None and methods.get(case_id) != timing.method[case_id]:
                continue
            into = result.setdefault(case_id, {side: {} for side in SIDES})
            for side, samples in sides.items():
                into[side].setdefault(process, []).append(samples)
    return result


def _arrays(processes: Processes) -> list[Samples]:
    return [np.concatenate(samples) for _, samples in sorted(processes.items())]


class Labeller:
    """Makes label rows from kernels and their kept samples, with the noise estimated from the kernels in `kept`."""

    def __init__(
        self,
        kernels: Mapping[str, Kernel],
        timings: Mapping[str, Mapping[tuple[str, int], Timing]],
        kept: Collection[str],
    ) -> None:
        self.kernels = kernels
        self.timings = timings
        self.noise: Noise = estimate_noise(self._noise_rows(kept))

    def _timed(self, kernel_id: str) -> list[tuple[tuple[str, int], Timing]]:
        times = self.timings[kernel_id]
        return [
            (event.process, times[log.search_id, event.index])
            for log, event in self.kernels[kernel_id].measured
            if is_primary(log, event) and (log.search_id, event.index) in times
        ]

    def _noise_rows(self, kept: Collection[str]) -> Iterator[tuple[str, str, str, Mapping[str, Samples]]]:
        for kernel_id in kept:
            kernel = self.kernels[kernel_id]
            timed = self._timed(kernel_id)
            for case_id, sides in sorted(_by_case(timed, timed[0][1].method if timed else None).items()):
                processes = sides["candidate"]
                by_name = {f"{s}/{n}": np.concatenate(x) for (s, n), x in sorted(processes.items())}
                yield kernel_id, kernel.task, case_id, by_name

    def kernel_row(self, kernel_id: str, structure: str, split: str) -> Row:
        """Return the row of the kernels table: status over all primary measurements, speedup over all its processes."""
        kernel = self.kernels[kernel_id]
        primary = [(log, event) for log, event in kernel.measured if is_primary(log, event)]
        log, first = primary[0]
        record, session = first.record, log.sessions[first.record["session_id"]]
        status, error = self.status(kernel_id)
        facts = record.get("facts", {})
        row: Row = {
            "kernel_id": kernel_id, "task": kernel.task, "language": kernel.language, "code": kernel.code,
            "code_view": code_view(kernel.code), "structure_hash": structure, "status": status, "error": error,
            "speedup": None, "speedup_low": None, "speedup_high": None, "bin": None, "time_us_geomean": None,
            "reference_us_geomean": None, "compile_s": record["compile_s"], "check_s": record["check_s"],
            "timing_s": record["timing_s"], "timing_method": None, "isolation": record["isolation"],
            "n_processes": len({event.process for _, event in primary}),
            **{name: facts.get(name) for name in ("registers", "spills", "shared_bytes", "cubin_hash")},
            **{name: session[name] for name in ("gpu", "driver", "cuda", "torch", "triton", "harness_version")},
            "measured_at": record["measured_at"], "split": split,
        }  # fmt: skip
        timed = self._timed(kernel_id)
        if status == "ok" and timed:
            methods = timed[0][1].method
            sides = sorted(_by_case(timed, methods).items())
            cases = [(case, _arrays(s["candidate"]), _arrays(s["reference"])) for case, s in sides]
            row |= _interval_columns(kernel_speedup(cases, self.noise, kernel.task))
            row["time_us_geomean"] = geomean_us({case: candidate for case, candidate, _ in cases})
            row["reference_us_geomean"] = geomean_us({case: reference for case, _, reference in cases})
            row["timing_method"] = "+".join(sorted(set(methods.values())))
        return row

    def status(self, kernel_id: str) -> tuple[str, str | None]:
        """Return the most damning status of all primary measurements, and its error with any disagreement."""
        records = [e.record for log, e in self.kernels[kernel_id].measured if is_primary(log, e)]
        worst = max(records, key=lambda record: SEVERITY.index(record["status"]))
        if worst["status"] == "ok":
            return "ok", None
        error = str(worst["error"])
        if len({record["status"] for record in records}) > 1:
            counts = [(s, sum(r["status"] == s for r in records)) for s in SEVERITY]
            error = f"{error} [measurements disagree: {', '.join(f'{n} {s}' for s, n in counts if n)}]".strip()
        return worst["status"], error

    def pair_rows(self, log: SearchLog) -> Iterator[tuple[Row | None, str, str]]:
        """Yield (row, pair_id, reason) for every measured child of a search: a row of pairs, or None and why not."""
        first = {e.node_id: e for e in reversed(log.measured) if e.role == "candidate" and is_primary(log, e)}
        anchors: dict[tuple[str, int], list[Measured]] = defaultdict(list)
        for event in log.measured:
            if event.role == "anchor" and is_primary(log, event):
                anchors[event.node_id, event.step].append(event)
        frontier = self._frontier(log, first)
        for node_id, event in sorted(first.items(), key=lambda item: item[1].index):
            node = log.nodes[node_id]
            if node.parent is None:
                continue
            parent = log.nodes[node.parent]
            key = pair_id(log.search_id, parent.kernel_id, node.kernel_id)
            if parent.node_id not in first:
                yield None, key, "the parent was not measured"
            elif _same_program(first[parent.node_id], event, parent, node):
                yield None, key, "A/A: same compiled code and same view as the parent"
            else:
                before = [a for a in anchors[parent.node_id, node.step] if a.record["cases"]]
                row, reason = self._pair_row(log, parent, node, before or [first[parent.node_id]], event)
                if row is not None:
                    row["frontier"] = frontier.get(node_id) if row["child_status"] == "ok" else None
                yield row, key, reason

    def _frontier(self, log: SearchLog, first: Mapping[str, Measured]) -> dict[str, bool]:
        best, result = 0.0, {}
        for node_id, event in sorted(first.items(), key=lambda item: item[1].index):
            timing = self.timings[event.kernel_id].get((log.search_id, event.index))
            if timing is None:
                continue
            cases = [(case, [s["candidate"]], [s["reference"]]) for case, s in sorted(timing.samples.items())]
            speedup = kernel_speedup(cases, self.noise, log.task["name"]).speedup
            result[node_id] = speedup > best
            best = max(best, speedup)
        return result

    def _pair_row(
        self, log: SearchLog, parent: Node, child: Node, before: Sequence[Measured], after: Measured
    ) -> tuple[Row | None, str]:
        task = log.task["name"]
        parent_timings = [
            (e.process, self.timings[parent.kernel_id][log.search_id, e.index])
            for e in before
            if (log.search_id, e.index) in self.timings[parent.kernel_id]
        ]
        if not parent_timings:
            return None, "the parent has no time"
        status, _ = self.status(child.kernel_id)
        child_timing = self.timings[child.kernel_id].get((log.search_id, after.index))
        methods = parent_timings[0][1].method
        parent_cases = {c: _arrays(s["candidate"]) for c, s in sorted(_by_case(parent_timings, methods).items())}
        row: Row = {
            "pair_id": pair_id(log.search_id, parent.kernel_id, child.kernel_id), "task": task,
            "search_id": log.search_id, "parent_id": parent.kernel_id, "child_id": child.kernel_id,
            "parent_code": code_view(parent.code), "child_code": code_view(child.code), "child_status": status,
            "operator": child.operator, "operator_class": child.operator_class,
            "parent_us_geomean": geomean_us(parent_cases), "speedup": None, "speedup_low": None, "speedup_high": None,
            "bin": None, **{f"resolved_{t}": None for t in TAUS}, "changed": None, "frontier": None,
            "undo": _is_undo(log, parent, child), "gpu": log.sessions[after.record["session_id"]]["gpu"],
        }  # fmt: skip
        if status == "ok":
            if child_timing is None:
                return None, "the child has no time"
            child_cases = _by_case([(after.process, child_timing)], methods)
            common = {c: _arrays(s["candidate"]) for c, s in child_cases.items() if c in parent_cases}
            if not common:
                return None, "parent and child share no case timed by the same method"
            found = pair_speedup({c: parent_cases[c] for c in common}, common, self.noise, task)
            row |= _interval_columns(found)
            row |= {f"resolved_{t}": not found.low <= tau <= found.high for t, tau in TAUS.items()}
            row["changed"] = not found.low <= 1 <= found.high and abs(math.log2(found.speedup)) > CHANGED_LOG2
        return row, ""


def _interval_columns(found: Interval) -> Row:
    return {
        "speedup": found.speedup,
        "speedup_low": found.low,
        "speedup_high": found.high,
        "bin": int(bin_of(found.speedup)),
    }


def _same_program(parent: Measured, child: Measured, parent_node: Node, child_node: Node) -> bool:
    cubins = [e.record.get("facts", {}).get("cubin_hash") for e in (parent, child)]
    if cubins[0] is None or cubins[0] != cubins[1]:
        return False
    return code_view(parent_node.code) == code_view(child_node.code)


def _is_undo(log: SearchLog, parent: Node, child: Node) -> bool:
    view = code_view(child.code)
    ancestor = parent.parent
    while ancestor is not None:
        if code_view(log.nodes[ancestor].code) == view:
            return True
        ancestor = log.nodes[ancestor].parent
    return False
