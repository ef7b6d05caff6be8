"""A surrogate whose answers follow from the candidate's source alone; some are wrong, and some are missing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from benchmark.query import Forecast, Query
from harness.search.forecasting import Forecaster
from harness.search.speculation import Calibration


class HashSurrogate:
    """Counts what it was asked."""

    information = "source"
    transductive = False

    def __init__(self) -> None:
        self.asked: list[Query] = []
        self.calls = 0

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        self.calls += 1
        self.asked += queries
        return [self._one(query.candidate_code) for query in queries]

    def _one(self, code: str) -> Forecast:
        digest = hashlib.sha256(code.encode()).digest()
        if digest[3] < 12:
            return Forecast(None, status="unparsed", input_tokens=10, output_tokens=5)
        shares = np.array(list(digest[8:16]), dtype=float) + 1
        log2 = digest[1] / 128 - 1 if digest[2] % 2 else None
        probabilities = tuple((shares / shares.sum()).tolist())
        return Forecast(probabilities, log2, p_fail=digest[4] / 400, input_tokens=10, output_tokens=5)


def hash_forecaster(surrogate: HashSurrogate | None = None) -> Forecaster:
    """A forecaster that was calibrated on three pairs: beta is 1/2 and the residual variance 1/4 times 2/3."""
    pairs = [(1.0, 1.0), (1.0, 0.0), (0.0, 0.0)]
    return Forecaster("hash", surrogate or HashSurrogate(), Calibration.of(pairs, "test"), report=lambda line: None)
