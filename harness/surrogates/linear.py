"""Straight lines through a few numbers: how far length alone gets, and a roofline with a launch count."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from benchmark.bins import Floats
from benchmark.query import Query
from harness.surrogates.features import source_features
from harness.surrogates.learned import Estimate, Learned, clipped, failure_rates
from harness.surrogates.query_features import BANDWIDTH
from harness.surrogates.training import Labelled

PENALTIES = (1.0, 10.0, 100.0, 1000.0)  # rows' worth of evidence that a slope is zero
FLOPS = 9.89e14  # dense bf16 operations per second of an H200, from NVIDIA's data sheet
LAUNCHES_US = (0.5, 1.0, 2.0, 4.0, 8.0)  # what one more kernel may cost; the train split decides
LEAST_SD = 1e-9


class Linear(Learned):
    """A ridge regression of log2 S, one for each kind of anchor; its penalty is the best on the validation split."""

    def __init__(self, seed: int = 0, calibrate: str = "temperature") -> None:
        super().__init__(seed, calibrate)
        self._lines: dict[str, tuple[Floats, Floats, Floats]] = {}  # mean, scale, then intercept and slopes
        self._failed: dict[str, float] = {}

    @abstractmethod
    def numbers(self, query: Query) -> Sequence[float]:
        """Return the numbers that the regression sees of one query, as many for every query."""

    def learn(self, train: Labelled, validation: Labelled) -> None:
        self._failed = failure_rates(train)
        for kind in ["", *sorted({query.anchor_kind for query in train.queries})]:
            x, y = self._rows(train, kind)
            held, wanted = self._rows(validation, kind)
            if not len(y):
                continue
            lines = [ridge(x, y, penalty) for penalty in PENALTIES]
            losses = [float(np.square(predict(line, held) - wanted).mean()) if len(wanted) else 0.0 for line in lines]
            self._lines[kind] = lines[int(np.argmin(losses))]

    def _rows(self, rows: Labelled, kind: str) -> tuple[Floats, Floats]:
        chosen = [i for i in np.flatnonzero(rows.ok) if kind in ("", rows.queries[i].anchor_kind)]
        x = np.array([self.numbers(rows.queries[i]) for i in chosen]).reshape(len(chosen), -1)
        return x, clipped(rows.log2_speedup[chosen])

    def estimate(self, queries: Sequence[Query]) -> Estimate:
        log2 = np.zeros(len(queries))
        for i, query in enumerate(queries):
            line = self._lines.get(query.anchor_kind, self._lines[""])
            log2[i] = predict(line, np.array([self.numbers(query)]))[0]
        p_fail = np.array([self._failed.get(query.anchor_kind, self._failed[""]) for query in queries])
        return Estimate(log2, p_fail)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        arrays = {f"{kind}/{i}": array for kind, line in self._lines.items() for i, array in enumerate(line)}
        return {"failed": self._failed, "kinds": list(self._lines)}, arrays

    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self._failed = dict(values["failed"])
        self._lines = {k: (arrays[f"{k}/0"], arrays[f"{k}/1"], arrays[f"{k}/2"]) for k in values["kinds"]}


def ridge(x: Floats, y: Floats, penalty: float) -> tuple[Floats, Floats, Floats]:
    """Return (mean, scale, coefficients) of a ridge regression of y (n,) on the standardised x (n, d).

    The first coefficient is the intercept, which is not penalised.
    """
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > LEAST_SD, scale, 1.0)
    z = (x - mean) / scale
    slopes = np.linalg.solve(z.T @ z + penalty * np.eye(x.shape[1]), z.T @ (y - y.mean()))
    return mean, scale, np.concatenate([[y.mean()], slopes])


def predict(line: tuple[Floats, Floats, Floats], x: Floats) -> Floats:
    """Return the value of a line at x (n, d), row by row in the same order of sums."""
    mean, scale, coefficients = line
    return np.asarray(coefficients[0] + (((x - mean) / scale) * coefficients[1:]).sum(axis=1))


class Length(Linear):
    """Sees how long the candidate is, and how much longer than its anchor; a reported baseline, not a serious one."""

    def numbers(self, query: Query) -> Sequence[float]:
        own, other = math.log2(1 + len(query.candidate_code)), math.log2(1 + len(query.anchor_code))
        return own - other, own


class Roofline(Linear):
    """A time for each source from the task's bytes and operations, the passes over memory and the launches.

    t = max(passes x bytes / bandwidth, operations / rate) + launches x overhead, averaged over the timing cases, with
    the overhead that fits the train split best. The regression sees the log-ratio of the anchor's model time to the
    candidate's, that of the anchor's measured time, and how far that stands above its model time, so that it can weigh
    what the model gets wrong.
    """

    def __init__(self, seed: int = 0, calibrate: str = "temperature") -> None:
        super().__init__(seed, calibrate)
        self._launch_us = LAUNCHES_US[0]

    def learn(self, train: Labelled, validation: Labelled) -> None:
        losses = []
        for self._launch_us in LAUNCHES_US:
            x, y = self._rows(train, "")
            losses.append(float(np.square(predict(ridge(x, y, PENALTIES[0]), x) - y).mean()))
        self._launch_us = LAUNCHES_US[int(np.argmin(losses))]
        super().learn(train, validation)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        values, arrays = super().state()
        return {**values, "launch_us": self._launch_us}, arrays

    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        super().restore(values, arrays)
        self._launch_us = values["launch_us"]

    def numbers(self, query: Query) -> Sequence[float]:
        candidate, anchor = (
            model_time(code, query.facts, self._launch_us) for code in (query.candidate_code, query.anchor_code)
        )
        if not query.anchor_time_us:
            return anchor - candidate, anchor - candidate, 0.0
        measured = math.log2(query.anchor_time_us)
        return anchor - candidate, measured - candidate, measured - anchor


def model_time(code: str, facts: Mapping[str, Any], launch_us: float) -> float:
    """Return the mean over timing cases of log2 of the modelled time in microseconds; 0 without declared cases."""
    passes, launches = passes_and_launches(source_features(code))
    times = []
    for case in facts.get("cases", ()):
        if case.get("timing", True):
            memory = passes * case.get("bytes", 0) / BANDWIDTH
            arithmetic = case.get("flops", 0) / FLOPS
            times.append(math.log2(max(memory, arithmetic) * 1e6 + launches * launch_us))
    return fmean(times) if times else 0.0


def passes_and_launches(features: Mapping[str, float]) -> tuple[float, float]:
    """Return how often a source moves the task's bytes, and how many kernels it starts.

    One launch of a kernel of its own moves them once, and again for each further loop that loads; a torch call is one
    launch, and one pass, of its own.
    """
    torch_calls = sum(features.get(f"torch.{kind}", 0.0) for kind in ("pointwise", "reduce", "matmul", "copy", "fill"))
    kernels = max(features.get("jit", 0.0), features.get("cuda.kernels", 0.0))
    launches = max(features.get("launches", 0.0), kernels) + torch_calls
    loads = features.get("tl.load.loop", 0.0) + features.get("tl.store.loop", 0.0)
    extra = max(features.get("loops", 0.0) - kernels, 0.0) if loads or "cuda.kernels" in features else 0.0
    return max(kernels + torch_calls + 0.5 * extra, 1.0), max(launches, 1.0)
