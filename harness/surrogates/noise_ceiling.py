"""The noise ceiling: a second measurement of the same kernels, at another start of the machine, as a forecast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmark.bins import bin_mass
from benchmark.query import Forecast, Query
from benchmark.speedup import Z95
from harness.surrogates.foreign import SurrogateError


@dataclass(frozen=True)
class Second:
    """The other measurement of one query: log2 S and its standard deviation, None where there is no other one."""

    query_id: str
    log2_speedup: float | None
    log2_sd: float


class NoiseCeiling:
    """Answers with another measurement and the spread between processes; nothing should forecast better.

    A query whose kernels were not measured again gets the status `refused`.
    """

    information = "measured"
    transductive = False

    def __init__(self) -> None:
        self._answers: dict[str, Forecast] = {}

    def reveal(self, rows: Sequence[Second]) -> None:
        """Take the second measurements of the next queries."""
        for row in rows:
            if row.log2_speedup is None:
                self._answers[row.query_id] = Forecast(None, status="refused")
                continue
            mass = bin_mass(row.log2_speedup, row.log2_sd)[0]
            self._answers[row.query_id] = Forecast(tuple(mass.tolist()), log2_speedup=row.log2_speedup)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        return [self._answers[query.query_id] for query in queries]


def second_measurements(track: str, split: str, dataset: str) -> list[Second]:
    """Return the measurement of each query of a track and split that its label was not made from.

    For pairs and pool that is the one of the second sessions. The labels of `eval` are second measurements, so there it
    is the first, which carries no interval of its own and gets the label's. Raises SurrogateError if nothing was
    measured twice.
    """
    from benchmark.data_access import load_labels, load_table

    second = ["second_speedup", "second_speedup_low", "second_speedup_high"]
    first = ["first_speedup", "speedup", "speedup_low", "speedup_high"]
    table, key, columns = {
        "pairs": ("pairs", "pair_id", second),
        "pool": ("kernels", "kernel_id", second),
        "eval": ("eval", "pair_id", first),
    }[track]
    stored = {row[key]: row for row in load_table(table, split, dataset, [key, *columns]).to_pylist()}
    own = "candidate_id" if track == "pool" else "query_id"
    labels = load_labels(track, split, dataset).select(["query_id", "candidate_id"]).to_pylist()
    found = [_second(label["query_id"], stored[label[own]], columns) for label in labels]
    if all(row.log2_speedup is None for row in found):
        problem = f"dataset '{dataset}', track {track}, split {split}: no kernel was measured a second time"
        raise SurrogateError(f"{problem}, so that there is no noise ceiling")
    return found


def _second(query_id: str, row: dict[str, Any], columns: Sequence[str]) -> Second:
    speedup, (low, high) = row[columns[0]], (row[name] for name in columns[-2:])
    if speedup is None:
        return Second(query_id, None, 0.0)
    return Second(query_id, float(np.log2(speedup)), float(np.log2(high / low)) / (2 * Z95))
