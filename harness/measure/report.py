"""Measurements as a person or a program reads them: per case times, speedup and share of the roofline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

import tasks
from benchmark.speedup import LAUNCH_BOUND, Z95, Noise, geomean_us, is_launch_bound, kernel_speedup, log2_median
from harness.measure.result import CaseTimes, Measurement

# Bytes per second of device memory that a copy reaches, read plus written; the roofline of memory-bound cases.
COPY_BYTES_PER_S = {"NVIDIA H200": 4.3e12}
_NO_NOISE = Noise({}, 0.0, 0)


def _case_row(task: str, times: CaseTimes, session: Mapping[str, Any]) -> dict[str, Any]:
    case = next(c for c in tasks.get(task).timing_cases if c.case_id == times.case_id)
    median, error = log2_median(times.candidate_ns)
    ratio = kernel_speedup([(case.case_id, [times.candidate_ns], [times.reference_ns])], _NO_NOISE, task)
    time_us = 2**median / 1e3
    rate = COPY_BYTES_PER_S.get(session.get("gpu", ""))
    empty_ns = session.get("empty_kernel_ns", {}).get(times.method)
    return {
        "case_id": case.case_id,
        "time_us": time_us,
        "time_low_us": time_us * 2 ** (-Z95 * error),
        "time_high_us": time_us * 2 ** (Z95 * error),
        "reference_us": float(np.median(times.reference_ns)) / 1e3,
        "speedup": ratio.speedup,
        "speedup_low": ratio.low,
        "speedup_high": ratio.high,
        "bandwidth_share": case.bytes / rate / (time_us / 1e6) if rate else None,
        "method": times.method,
        "samples": len(times.candidate_ns),
        "empty_kernel_us": None if empty_ns is None else empty_ns / 1e3,
        "launch_bound": is_launch_bound(times.candidate_ns, times.reference_ns, empty_ns),
    }


def summary(measurement: Measurement, file: str, session: Mapping[str, Any]) -> dict[str, Any]:
    """Return one measurement as plain JSON: status, costs, and for an ok one the cases and their geometric mean.

    `session` is the row of its session, empty where none is known. Intervals are of this process alone (within-process
    spread). Launch-bound cases are not in the mean; `launch_bound` says that there is none because every case is.
    """
    error = measurement.error.replace("kernel_source.py", file)
    row: dict[str, Any] = {
        "file": file, "kernel_id": measurement.kernel_id, "task": measurement.task, "status": measurement.status,
        "stage": measurement.stage, "error": error, "gpu": session.get("gpu", ""), "isolation": measurement.isolation,
        "compile_s": measurement.compile_s, "check_s": measurement.check_s, "timing_s": measurement.timing_s,
        "wait_s": measurement.wait_s, "facts": dict(measurement.facts), "time_us_geomean": None, "speedup": None,
        "speedup_low": None, "speedup_high": None, "launch_bound": False,
        "cases": [_case_row(measurement.task, c, session) for c in measurement.cases],
    }  # fmt: skip
    telling = [c for c, shown in zip(measurement.cases, row["cases"], strict=True) if not shown["launch_bound"]]
    row["launch_bound"] = bool(measurement.cases) and not telling
    if telling:
        cases = [(c.case_id, [c.candidate_ns], [c.reference_ns]) for c in telling]
        total = kernel_speedup(cases, _NO_NOISE, measurement.task)
        row.update(
            time_us_geomean=geomean_us({c.case_id: [c.candidate_ns] for c in telling}),
            speedup=total.speedup, speedup_low=total.low, speedup_high=total.high,
        )  # fmt: skip
    return row


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the summaries as one aligned text table, a line per timing case and a geometric mean per file."""
    head = ("file", "case", "time us", "95%", "speedup", "95%", "copy rate", "method", "status")
    rows, lines = list(rows), []
    for row in rows:
        for case in row["cases"]:
            share = case["bandwidth_share"]
            lines.append((
                row["file"], case["case_id"], f"{case['time_us']:.2f}",
                f"{case['time_low_us']:.2f}-{case['time_high_us']:.2f}", f"{case['speedup']:.3f}",
                f"{case['speedup_low']:.3f}-{case['speedup_high']:.3f}", "" if share is None else f"{share:.0%}",
                case["method"], "launch-bound" if case["launch_bound"] else "",
            ))  # fmt: skip
        mean = row["time_us_geomean"]
        span = f"{row['speedup_low']:.3f}-{row['speedup_high']:.3f}" if mean else ""
        label = "every case is launch-bound" if row["launch_bound"] else "geometric mean" if mean else ""
        lines.append((
            row["file"], label, f"{mean:.2f}" if mean else "", "",
            f"{row['speedup']:.3f}" if mean else "", span, "", "", row["status"],
        ))  # fmt: skip
    widths = [max(len(head[i]), *(len(line[i]) for line in lines)) for i in range(len(head))]
    right = {2, 3, 4, 5, 6}

    def show(line: tuple[str, ...]) -> str:
        cells = (c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        return "  ".join(cells).rstrip()

    notes = [
        f"{r['file']}: {r['stage'] or r['status']}: {r['error'].splitlines()[0][:200]}" for r in rows if r["error"]
    ]
    left_out = [case for row in rows for case in row["cases"] if case["launch_bound"]]
    if left_out:
        empty = ", ".join(sorted({f"{case['empty_kernel_us']:.2f} us by {case['method']}" for case in left_out}))
        notes.append(
            f"launch-bound: both sides take less than {LAUNCH_BOUND:g} times an empty kernel ({empty}), so that the "
            "case is not in the geometric mean"
        )
    return "\n".join([show(head), *(show(line) for line in lines), *notes])
