"""What the engine's benchmark says of its measurements: pure functions from measurements to figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.speedup import Noise, estimate_noise, geomean_us, kernel_speedup, log2_median, pair_speedup
from harness.measure.result import Measurement

Z90 = 1.6448536269514722  # one-sided 95%
EQUIVALENCE = 0.003
STAGES = ("context_s", "compile_s", "check_s", "wait_s", "timing_s")


def log_time(measurement: Measurement) -> float:
    """Return the natural log of the geometric mean time over cases."""
    return float(np.log(geomean_us({c.case_id: [c.candidate_ns] for c in measurement.cases})))


def log_speedup(measurement: Measurement) -> float:
    """Return the natural log of the speedup over the reference."""
    rows = [(c.case_id, [c.candidate_ns], [c.reference_ns]) for c in measurement.cases]
    return float(np.log(kernel_speedup(rows, Noise({}, 0.0, 0), measurement.task).speedup))


def first_median_ns(measurement: Measurement) -> float:
    """Return the median time of the first case in nanoseconds."""
    return float(np.median(measurement.cases[0].candidate_ns))


def throughput(
    measurements: Sequence[Measurement], seconds: float, spent: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """Return kernels per second and where the time went, per kernel and stage; stages of several kernels overlap.

    `spent` has the seconds of those who were asked, by kind of request.
    """
    ok = [m for m in measurements if m.status == "ok"]
    samples = [len(c.candidate_ns) for m in ok for c in m.cases]
    return {
        "kernels": len(measurements),
        "ok": len(ok),
        "seconds": seconds,
        "kernels_per_s": len(measurements) / seconds if seconds else None,
        "mean_s_per_kernel": {
            stage: float(np.mean([getattr(m, stage) for m in measurements])) for stage in STAGES if measurements
        },
        **{
            f"{who}_per_kernel": {name: seconds / max(len(measurements), 1) for name, seconds in by_request.items()}
            for who, by_request in spent.items()
        },
        "samples_per_case": float(np.mean(samples)) if samples else None,
    }


def agreement(strict: Mapping[str, Measurement], shared: Mapping[str, Measurement]) -> dict[str, Any]:
    """Compare the times of kernels that were measured at both levels, by kernel id.

    `equivalent` is whether two one-sided tests at 5% place the mean log ratio within 0.3% of zero (Schuirmann, 1987).
    """
    both = [key for key in strict if key in shared and strict[key].cases and shared[key].cases]
    ratios = np.array([log_time(shared[key]) - log_time(strict[key]) for key in both])
    if len(ratios) < 2:
        return {"kernels": len(ratios)}
    error = float(ratios.std(ddof=1) / np.sqrt(len(ratios)))
    mean = float(ratios.mean())
    return {
        "kernels": len(ratios),
        "median_abs_difference": float(np.median(np.abs(np.expm1(ratios)))),
        "p95_abs_difference": float(np.quantile(np.abs(np.expm1(ratios)), 0.95)),
        "mean_log_ratio": mean,
        "mean_log_ratio_se": error,
        "equivalent": bool(abs(mean) + Z90 * error < EQUIVALENCE),
    }


def repeatability(measurements: Sequence[Measurement]) -> dict[str, Any]:
    """Return the spread of the time of one kernel over separate measurements, per case and as a geometric mean."""
    logs = np.array([log_time(m) for m in measurements if m.cases])
    cases = {c.case_id for m in measurements for c in m.cases}
    by_case = {
        case: _cv([float(np.median(c.candidate_ns)) for m in measurements for c in m.cases if c.case_id == case])
        for case in sorted(cases)
    }
    times = np.exp(logs)
    return {
        "measurements": len(logs), "time_us": float(np.median(times)) if len(times) else None, "cv": _cv(times),
        "cv_by_case": by_case, "cv_speedup": _cv(np.exp([log_speedup(m) for m in measurements if m.cases])),
    }  # fmt: skip


def _cv(values: Any) -> float | None:
    values = np.asarray(values, dtype=float)
    return float(values.std(ddof=1) / values.mean()) if len(values) > 1 else None


def twice(first: Mapping[str, Measurement], second: Mapping[str, Measurement], pairs: int, seed: int) -> dict[str, Any]:
    """Return how kernels that were measured twice, in separate processes at separate times, agree with themselves.

    `aa_within_1pct`: share of kernels whose A/A speedup is within 1%. `covered`: share of `pairs` random pairs of
    kernels whose second log speedup lies within 1.96 joint standard errors of the first, as both intervals state them.
    """
    both = [key for key in first if key in second and first[key].cases and second[key].cases]
    if len(both) < 3:
        return {"kernels": len(both)}
    ratios = np.array([log_time(second[key]) - log_time(first[key]) for key in both])
    noise = estimate_noise(
        (key, first[key].task, case, {"1": _samples(first[key], case), "2": _samples(second[key], case)})
        for key in both
        for case in _shared_cases(first[key], second[key])
    )
    rng = np.random.default_rng(seed)
    inside = []
    for _ in range(pairs):
        one, other = rng.choice(len(both), size=2, replace=False)
        change, band = _change(both[one], both[other], first, second, noise)
        inside.append(abs(change) <= band)
    return {
        "kernels": len(both),
        "aa_within_1pct": float(np.mean(np.abs(np.expm1(ratios)) <= 0.01)),
        "aa_p95_abs_difference": float(np.quantile(np.abs(np.expm1(ratios)), 0.95)),
        "between_process_log2_sd": noise.pooled,
        "pairs": pairs,
        "covered": float(np.mean(inside)),
    }


def _change(
    a: str, b: str, first: Mapping[str, Measurement], second: Mapping[str, Measurement], noise: Noise
) -> tuple[float, float]:
    """Return the change of log2 S between two measurements of a pair, and the half-width that both intervals imply."""
    levels, halves = [], []
    for run in (first, second):
        sides = [{c.case_id: [c.candidate_ns] for c in run[key].cases} for key in (a, b)]
        interval = pair_speedup(sides[0], sides[1], noise, run[a].task)
        levels.append(np.log2(interval.speedup))
        halves.append(np.log2(interval.high / interval.speedup))
    return float(levels[1] - levels[0]), float(np.hypot(*halves))


def _samples(measurement: Measurement, case_id: str) -> NDArray[np.float64]:
    return np.array(next(c.candidate_ns for c in measurement.cases if c.case_id == case_id))


def _shared_cases(one: Measurement, other: Measurement) -> list[str]:
    known = {c.case_id for c in other.cases}
    return [c.case_id for c in one.cases if c.case_id in known]


def methods(by_method: Mapping[str, Mapping[str, Measurement]], empty_ns: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return, per kernel and case, the time by each method in us, and with the method's empty-kernel time taken off."""
    rows = []
    names = sorted({name for found in by_method.values() for name in found})
    for name in names:
        found = {m: kernels[name] for m, kernels in by_method.items() if name in kernels and kernels[name].cases}
        cases = sorted({c.case_id for one in found.values() for c in one.cases})
        for case in cases:
            times = {
                m: 2 ** log2_median(_samples(one, case))[0]
                for m, one in found.items()
                if any(c.case_id == case for c in one.cases)
            }
            net = {m: t - empty_ns.get(m, 0.0) for m, t in times.items()}
            rows.append({
                "kernel": name, "case_id": case, "time_us": {m: t / 1e3 for m, t in times.items()},
                "spread": max(times.values()) / min(times.values()) - 1 if len(times) > 1 else None,
                "net_spread": max(net.values()) / min(net.values()) - 1 if len(net) > 1 else None,
            })  # fmt: skip
    return rows


def cold_reads(copies: Measurement, peak_bytes_per_s: float) -> list[dict[str, Any]]:
    """Return the rate at which copies read their input, as a share of the memory's peak; cold, none is over 1."""
    rows = []
    for case in copies.cases:
        nbytes = 4 * int(case.case_id.split("-")[0])
        seconds = 2 ** log2_median(case.candidate_ns)[0] / 1e9
        rows.append(
            {"bytes_read": nbytes, "time_us": seconds * 1e6, "share_of_peak": nbytes / seconds / peak_bytes_per_s}
        )
    return rows


def headlines(result: Mapping[str, Any]) -> list[list[str]]:
    """Return the figures that have a goal as rows of text: what, value, goal."""
    rows: list[list[str]] = []

    def add(name: str, path: str, form: str, goal: str) -> None:
        value: Any = result
        for part in path.split("/"):
            value = value.get(part) if isinstance(value, Mapping) else None
        if value is not None:
            rows.append([name, form.format(value), goal])

    add("strict, kernels per second", "strict-1/kernels_per_s", "{:.2f}", "3.5")
    add("shared, kernels per second", "shared-1/kernels_per_s", "{:.2f}", "15")
    add("strict against shared, median difference", "agreement/median_abs_difference", "{:.2%}", "1%")
    add("strict against shared, 95th percentile", "agreement/p95_abs_difference", "{:.2%}", "3%")
    add("strict against shared, mean log ratio", "agreement/mean_log_ratio", "{:+.4f}", "0.003")
    add("one kernel again and again, CV of its time", "repeatability/cv", "{:.2%}", "0.5%")
    add("A/A speedup within 1%", "twice/aa_within_1pct", "{:.1%}", "95%")
    add("pairs whose second log S is in the band", "twice/covered", "{:.1%}", "93-97%")
    for row in result.get("methods", ()):
        if row["net_spread"] is not None:
            label = f"methods differ on {row['kernel']} {row['case_id']} ({max(row['time_us'].values()):.0f} us)"
            rows.append([label, f"{row['spread']:.1%}, net {row['net_spread']:.1%}", "3%"])
    for row in result.get("cold_reads", ()):
        label = f"peak rate that a cold read of {row['bytes_read'] / 2**20:.3g} MiB reaches"
        rows.append([label, f"{row['share_of_peak']:.0%}", "below 100%"])
    for row in result.get("exploits", ()):
        speed = "" if row["speedup"] is None else f", {row['speedup']:.2f}x"
        rows.append([row["case"], row["status"] + speed, "ok" if row["case"].startswith("honest") else "no gain"])
    return rows
