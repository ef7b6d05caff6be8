"""Synthetic labels and forecasts for tests of scoring: no files, no dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from benchmark.bins import bin_mass, bin_of
from benchmark.forecasts import Forecasts
from benchmark.records import OPERATOR_CLASSES


def label_table(
    tasks: int = 4, searches: int = 4, rows: int = 12, fail: float = 0.15, seed: int = 0, spread: float = 0.8
) -> pa.Table:
    """Return a table with the columns of `load_labels`: `rows` rows in each of `searches` searches of each task."""
    rng = np.random.default_rng(seed)
    n = tasks * searches * rows
    log2 = rng.normal(0.0, spread, n)
    sd = rng.uniform(0.005, 0.05, n)
    ok = rng.random(n) >= fail
    place = np.arange(n)
    task, search = place // (searches * rows), place // rows

    def known(values: np.ndarray) -> list[Any]:
        return [v.item() if good else None for v, good in zip(values, ok, strict=True)]

    return pa.table({
        "query_id": [f"q-{i:06d}" for i in rng.permutation(n)],
        "task": [f"task-{t}" for t in task],
        "search_id": [f"task-{t}-test-{s}" for t, s in zip(task, search, strict=True)],
        "seed_id": [f"seed-{s % 3}" for s in search],
        "anchor_id": pa.array([f"k-{i}" for i in place]),
        "candidate_id": [f"k-c{i}" for i in place],
        "status": ["ok" if good else "incorrect" for good in ok],
        "speedup": pa.array(known(2**log2), pa.float64()),
        "speedup_low": pa.array(known(2 ** (log2 - 1.96 * sd)), pa.float64()),
        "speedup_high": pa.array(known(2 ** (log2 + 1.96 * sd)), pa.float64()),
        "log2_sd": pa.array(known(sd), pa.float64()),
        "bin": pa.array(known(bin_of(2**log2)), pa.int64()),
        "operator_class": [OPERATOR_CLASSES[i % len(OPERATOR_CLASSES)] for i in place],
    })  # fmt: skip


def forecasts_of(ids: Sequence[str], probabilities: np.ndarray, **fields: Any) -> Forecasts:
    """Return forecasts, all `ok` unless `status` says otherwise."""
    n = len(ids)
    blank = np.full(n, np.nan)
    arrays: dict[str, Any] = {
        "repeat": np.zeros(n, dtype=np.int64),
        "status": np.full(n, "ok", dtype=object),
        "log2_speedup": blank, "rank_score": None, "p_fail": blank, "seconds": blank,
        "input_tokens": blank, "output_tokens": blank, "metadata": {}, "source": "synthetic.parquet",
    }  # fmt: skip
    return Forecasts(query_id=np.array(ids, dtype=object), probabilities=probabilities, **{**arrays, **fields})


def noisy_forecasts(table: pa.Table, noise: float, seed: int = 1, **fields: Any) -> Forecasts:
    """Return forecasts that see the true log2 speedup through normal noise, and say so; failed rows are guesses."""
    rng = np.random.default_rng(seed)
    truth = np.array([1.0 if s is None else s for s in table.column("speedup").to_pylist()])
    seen = np.log2(truth) + rng.normal(0.0, noise, len(truth))
    return forecasts_of(table.column("query_id").to_pylist(), bin_mass(seen, max(noise, 0.05)), **fields)


def uniform_forecasts(table: pa.Table, **fields: Any) -> Forecasts:
    """Return the forecast that knows nothing, for every row."""
    return forecasts_of(table.column("query_id").to_pylist(), np.full((table.num_rows, 8), 1 / 8), **fields)
