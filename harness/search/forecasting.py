"""A surrogate in the loop: questions about the children of a step, asked in one batch, and how far to trust it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmark.code_view import code_view
from benchmark.identity import pair_id
from benchmark.query import Forecast, Query, Surrogate
from harness.search.node import Node
from harness.search.speculation import Calibration

Report = Callable[[str], None]


class Forecaster:
    """A fitted surrogate that several searches ask, one at a time."""

    def __init__(self, name: str, surrogate: Surrogate, calibration: Calibration, report: Report = print) -> None:
        self.name, self.calibration = name, calibration
        self._surrogate, self._report = surrogate, report
        self._lock = threading.Lock()

    def forecast(
        self, task: Mapping[str, Any], track: str, hardware: str, search_id: str, pairs: Sequence[tuple[Node, Node]]
    ) -> list[Forecast]:
        """Return one forecast for each (parent, child); what the surrogate gets wrong has the status `error`.

        Raises harness.surrogates.Unavailable if it cannot answer at all.
        """
        from harness.surrogates.run import forecast_all

        queries = [query(task, track, hardware, search_id, parent, child) for parent, child in pairs]
        with self._lock:
            return forecast_all(
                self._surrogate, queries, report=lambda query_id, problem: self._report(f"{query_id}: {problem}")
            )


def query(task: Mapping[str, Any], track: str, hardware: str, search_id: str, parent: Node, child: Node) -> Query:
    """Return the question of how much faster a child is than its parent."""
    return Query(
        query_id=pair_id(search_id, parent.kernel_id, child.kernel_id),
        track=track,
        task=task["name"],
        statement=task["statement"],
        anchor_kind="parent",
        anchor_code=code_view(parent.code),
        candidate_code=code_view(child.code),
        anchor_time_us=parent.time_us,
        hardware=hardware,
        facts={"cases": task["cases"]},
    )


def open_forecaster(expression: str, dataset: str | None, seed: int | None, report: Report) -> Forecaster:
    """Create, fit and calibrate the surrogate that an expression names.

    A surrogate that fits gets the train and validation splits of the dataset; every one is calibrated on the validation
    pairs. Without a dataset only a surrogate that needs no fitting can be used, with the assumed calibration. Raises
    SurrogateError for a surrogate that cannot be created or fitted.
    """
    from harness.surrogates.foreign import SurrogateError
    from harness.surrogates.spec import create, parse, seeded

    spec = seeded(parse(expression), seed)
    surrogate = create(spec)
    if dataset is None:
        if hasattr(surrogate, "fit"):
            raise SurrogateError(
                f"surrogate '{expression}' has to be fitted and there is no dataset here to fit it on: give trained=DIR"
            )
        return Forecaster(str(spec), surrogate, Calibration.assumed(), report)
    from harness.surrogates.training import prepare

    surrogate = prepare(surrogate, dataset)
    return Forecaster(str(spec), surrogate, calibrate(surrogate, dataset), report)


def calibrate(surrogate: Surrogate, dataset: str) -> Calibration:
    """Return how the surrogate's means compare to what was measured on the validation pairs of a dataset."""
    from benchmark.data_access import available_splits, available_tracks
    from harness.search.arms import forecast_log2
    from harness.surrogates.run import forecast_all
    from harness.surrogates.training import labelled

    if "validation" not in available_splits(dataset) or "pairs" not in available_tracks(dataset):
        return Calibration.assumed()
    rows = labelled("pairs", "validation", dataset)
    known = [(query, float(y)) for query, y, ok in zip(rows.queries, rows.log2_speedup, rows.ok, strict=True) if ok]
    answers = forecast_all(surrogate, [query for query, _ in known])
    pairs = [(forecast_log2(a), y) for a, (_, y) in zip(answers, known, strict=True) if a.status == "ok"]
    return Calibration.of(pairs, f"{dataset}, validation pairs") if pairs else Calibration.assumed()


def forecast_json(forecast: Forecast) -> dict[str, Any]:
    """Return a forecast as JSON values for the log."""
    row = asdict(forecast)
    if row["probabilities"] is not None:
        row["probabilities"] = [float(p) for p in row["probabilities"]]
    return row
