"""From raw time samples to a speedup and its 95% interval.

A kernel's time on a case is the median of its samples; over cases the geometric mean is taken, so everything here is a
mean of log2 medians. Samples of one process agree better with each other than with those of another process, so an
interval adds two variances: that of the medians (within) and that between processes (`Noise`), estimated from kernels
that were measured in several processes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]
Z95 = 1.959963984540054
MEDIAN_EFFICIENCY = float(np.sqrt(np.pi / 2))  # sd(median) / sd(mean) for normal samples
MAD_TO_SD = 1.4826022185056018
MIN_DEGREES_OF_FREEDOM = 10  # fewer repeats than this in a task, and the pooled estimate of all tasks serves
LAUNCH_BOUND = 3.0  # times an empty kernel: below it, a third or more of what is read is the launch


@dataclass(frozen=True)
class Interval:
    """A speedup with its 95% interval; all three positive, low <= speedup <= high."""

    speedup: float
    low: float
    high: float


@dataclass(frozen=True)
class Noise:
    """Standard deviation of log2 time (geometric mean over cases) between processes, by task and over all tasks."""

    by_task: Mapping[str, float]
    pooled: float
    degrees_of_freedom: int

    def between_log2_sd(self, task: str) -> float:
        """Return the between-process standard deviation of log2 time for a task."""
        return self.by_task.get(task, self.pooled)


def log2_median(samples: npt.ArrayLike) -> tuple[float, float]:
    """Return the log2 of the median time and the standard error of that log.

    The spread is the larger of the median absolute deviation and half the clock tick seen in the samples, so that
    samples that all fall on one tick do not claim to be exact. Raises ValueError without a positive sample.
    """
    times = np.asarray(samples, dtype=np.float64)
    times = times[np.isfinite(times) & (times > 0)]
    if not times.size:
        raise ValueError("no positive time sample")
    logs = np.log2(times)
    middle = float(np.log2(np.median(times)))
    spread = MAD_TO_SD * float(np.median(np.abs(logs - middle)))
    distinct = np.unique(times)
    tick = float(np.log2(distinct[1] / distinct[0])) if distinct.size > 1 else 0.0
    spread = max(spread, min(tick, 0.01) / np.sqrt(12))
    return middle, MEDIAN_EFFICIENCY * spread / float(np.sqrt(times.size))


def is_launch_bound(candidate: npt.ArrayLike, reference: npt.ArrayLike, empty_kernel_ns: float | None) -> bool:
    """Return whether a case times launches, not the operation: both medians are below LAUNCH_BOUND empty kernels.

    `candidate` and `reference` are samples in nanoseconds, and `empty_kernel_ns` is what the same timing method reads
    for a kernel without work; None where that is not known, and the answer is then False. One side alone decides
    nothing: a kernel that comes down to its launch where the reference does not has earned its speedup.
    """
    if empty_kernel_ns is None:
        return False
    slower = max(float(np.median(np.asarray(side, dtype=np.float64))) for side in (candidate, reference))
    return slower < LAUNCH_BOUND * empty_kernel_ns


def _mean_over_cases(cases: Iterable[Sequence[npt.ArrayLike]]) -> tuple[float, float, int]:
    """Return the mean over cases of log2 time, its within-process variance, and the least number of processes."""
    means, variances, counts = [], [], []
    for processes in cases:
        medians = [log2_median(samples) for samples in processes]
        means.append(float(np.mean([m for m, _ in medians])))
        variances.append(sum(e * e for _, e in medians) / len(medians) ** 2)
        counts.append(len(medians))
    if not means:
        raise ValueError("no timing case")
    return float(np.mean(means)), sum(variances) / len(variances) ** 2, min(counts)


def estimate_noise(rows: Iterable[tuple[str, str, str, Mapping[str, npt.ArrayLike]]]) -> Noise:
    """Return the between-process noise from rows (kernel_id, task, case_id, {process: samples in ns}).

    Per kernel, the log2 time of each process is averaged over the cases that all its processes share; the variance
    between processes is pooled over kernels and reduced by the mean within-process variance (method of moments).
    """
    kernels: dict[tuple[str, str], dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    cases_of: dict[tuple[str, str], int] = defaultdict(int)
    for kernel_id, task, _case_id, processes in rows:
        if len(processes) < 2:
            continue
        cases_of[task, kernel_id] += 1
        for process, samples in processes.items():
            kernels[task, kernel_id][process].append(log2_median(samples))
    squares: dict[str, float] = defaultdict(float)
    within: dict[str, float] = defaultdict(float)
    freedom: dict[str, int] = defaultdict(int)
    for (task, kernel_id), by_process in kernels.items():
        full = [logs for logs in by_process.values() if len(logs) == cases_of[task, kernel_id]]
        if len(full) < 2:
            continue
        levels = np.array([np.mean([m for m, _ in logs]) for logs in full])
        errors = np.array([sum(e * e for _, e in logs) / len(logs) ** 2 for logs in full])
        squares[task] += float(((levels - levels.mean()) ** 2).sum())
        within[task] += float(errors.mean()) * (len(full) - 1)
        freedom[task] += len(full) - 1
    total = sum(freedom.values())
    if not total:
        return Noise({}, 0.0, 0)

    def sd(square: float, inside: float, df: int) -> float:
        return float(np.sqrt(max(square - inside, 0.0) / df))

    by_task = {t: sd(squares[t], within[t], n) for t, n in freedom.items() if n >= MIN_DEGREES_OF_FREEDOM}
    return Noise(by_task, sd(sum(squares.values()), sum(within.values()), total), total)


def _interval(log2_speedup: float, variance: float) -> Interval:
    half = Z95 * float(np.sqrt(variance))
    return Interval(float(2**log2_speedup), float(2 ** (log2_speedup - half)), float(2 ** (log2_speedup + half)))


def kernel_speedup(
    cases: Iterable[tuple[str, Sequence[npt.ArrayLike], Sequence[npt.ArrayLike]]], noise: Noise, task: str
) -> Interval:
    """Return the speedup over the reference from (case_id, candidate samples, reference samples), each by process.

    Both sides of a process are timed in turns, by the same method. Raises ValueError if there is no case.
    """
    rows = list(cases)
    candidate, inside_candidate, processes = _mean_over_cases(c for _, c, _ in rows)
    reference, inside_reference, _ = _mean_over_cases(r for _, _, r in rows)
    between = noise.between_log2_sd(task) ** 2 / processes
    return _interval(reference - candidate, inside_candidate + inside_reference + between)


def pair_speedup(
    parent: Mapping[str, Sequence[npt.ArrayLike]],
    child: Mapping[str, Sequence[npt.ArrayLike]],
    noise: Noise,
    task: str,
) -> Interval:
    """Return t_parent / t_child over the timing cases that both have, from case_id -> samples by process.

    Both sides carry their own between-process error. Raises ValueError if they share no case.
    """
    common = [case for case in parent if case in child]
    above, inside_above, n_above = _mean_over_cases(parent[case] for case in common)
    below, inside_below, n_below = _mean_over_cases(child[case] for case in common)
    between = noise.between_log2_sd(task) ** 2 * (1 / n_above + 1 / n_below)
    return _interval(above - below, inside_above + inside_below + between)


def geomean_us(cases: Mapping[str, Sequence[npt.ArrayLike]]) -> float:
    """Return the geometric mean over cases of the median time in microseconds, from samples in nanoseconds."""
    level, _, _ = _mean_over_cases(cases.values())
    return float(2**level / 1e3)
