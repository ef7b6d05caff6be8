"""From the samples of measured kernels to labelled rows of the kernels table, with their speedups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np

from benchmark.bins import bin_of
from benchmark.code_view import code_view
from benchmark.event_log import Measured, SearchLog
from benchmark.samples import SIDES, Kernel, Row, Samples, Timing, is_primary
from benchmark.self_description import describes_itself
from benchmark.speedup import Interval, Noise, estimate_noise, geomean_us, kernel_speedup, pair_speedup

Processes = dict[tuple[str, int], list[Samples]]
Timed = list[tuple[tuple[str, int], Timing]]
# From least to most damning: what a kernel is called whose measurements disagree.
SEVERITY = ("ok", "compile", "oom", "timeout", "runtime", "incorrect", "rejected")


def by_case(
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


def arrays(processes: Processes) -> list[Samples]:
    """Return the samples of each process, in order."""
    return [np.concatenate(samples) for _, samples in sorted(processes.items())]


def interval_columns(found: Interval, prefix: str = "") -> Row:
    """Return the columns of a speedup and its interval; without a prefix the bin too."""
    row: Row = {
        f"{prefix}speedup": found.speedup,
        f"{prefix}speedup_low": found.low,
        f"{prefix}speedup_high": found.high,
    }
    return row if prefix else row | {"bin": int(bin_of(found.speedup))}


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
        self._views: dict[str, str] = {}
        self.noise: Noise = estimate_noise(self._noise_rows(kept))

    def view(self, kernel_id: str, code: str) -> str:
        """Return the code_view of a kernel, made once."""
        if kernel_id not in self._views:
            self._views[kernel_id] = code_view(code)
        return self._views[kernel_id]

    def timed(self, kernel_id: str, primary: bool = True) -> Timed:
        """Return (process, timing) of a kernel's measurements in primary sessions, or else in second ones."""
        times = self.timings[kernel_id]
        return [
            (event.process, times[log.search_id, event.index])
            for log, event in self.kernels[kernel_id].measured
            if is_primary(log, event) == primary and (log.search_id, event.index) in times
        ]

    def _noise_rows(self, kept: Collection[str]) -> Iterator[tuple[str, str, str, Mapping[str, Samples]]]:
        for kernel_id in kept:
            timed = self.timed(kernel_id)
            for case_id, sides in sorted(by_case(timed, timed[0][1].method if timed else None).items()):
                processes = sides["candidate"]
                by_name = {f"{s}/{n}": np.concatenate(x) for (s, n), x in sorted(processes.items())}
                yield kernel_id, self.kernels[kernel_id].task, case_id, by_name

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
            "code_view": self.view(kernel_id, kernel.code), "structure_hash": structure,
            "self_describing": describes_itself(kernel.code), "status": status, "error": error,
            "compile_s": record["compile_s"], "check_s": record["check_s"], "timing_s": record["timing_s"],
            "isolation": record["isolation"], "n_processes": len({event.process for _, event in primary}),
            **{name: facts.get(name) for name in ("registers", "spills", "shared_bytes", "cubin_hash")},
            **{name: session[name] for name in ("gpu", "driver", "cuda", "torch", "triton", "harness_version")},
            "measured_at": record["measured_at"], "split": split,
        }  # fmt: skip
        timed = self.timed(kernel_id)
        if status == "ok" and timed:
            methods = timed[0][1].method
            cases = _both_sides(timed)
            row |= interval_columns(kernel_speedup(cases, self.noise, kernel.task))
            row["time_us_geomean"] = geomean_us({case: candidate for case, candidate, _ in cases})
            row["reference_us_geomean"] = geomean_us({case: reference for case, _, reference in cases})
            row["timing_method"] = "+".join(sorted(set(methods.values())))
            row |= self.second_speedup(kernel_id)
        return row

    def second_speedup(self, kernel_id: str, parent_id: str | None = None) -> Row:
        """Return the `second_` columns of a kernel over the reference, or over a parent: second sessions alone.

        They are empty where a side was not timed again by the same method.
        """
        task, again = self.kernels[kernel_id].task, self.timed(kernel_id, primary=False)
        if not again:
            return {}
        if parent_id is None:
            return interval_columns(kernel_speedup(_both_sides(again), self.noise, task), "second_")
        parent = self.timed(parent_id, primary=False)
        above = {c: arrays(s["candidate"]) for c, s in by_case(parent).items()} if parent else {}
        below = by_case(again, parent[0][1].method) if parent else {}
        common = {c: arrays(s["candidate"]) for c, s in sorted(below.items()) if c in above}
        if not common:
            return {}
        return interval_columns(pair_speedup({c: above[c] for c in common}, common, self.noise, task), "second_")

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


def _both_sides(timed: Timed) -> list[tuple[str, list[Samples], list[Samples]]]:
    sides = sorted(by_case(timed, timed[0][1].method).items())
    return [(case, arrays(s["candidate"]), arrays(s["reference"])) for case, s in sides]


def first_measured(log: SearchLog) -> dict[str, Measured]:
    """Return the first primary measurement of each node of a search as a candidate."""
    return {e.node_id: e for e in reversed(log.measured) if e.role == "candidate" and is_primary(log, e)}
