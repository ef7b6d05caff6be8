"""What a submission does worst, on labels whose worst part is known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmark.answers import Labels
from leaderboard.board import Board
from leaderboard.weakness import behind, weakness
from tests.benchmark.synthetic import forecasts_of, label_table


@pytest.fixture(scope="module")
def labels() -> Labels:
    return Labels.from_table(label_table(tasks=3, searches=2, rows=20))


def test_the_task_the_class_and_the_row_that_cost_most_come_first(labels: Labels) -> None:
    p = labels.mass.copy()
    p[~labels.measured] = 1 / 8
    bad = labels.task == 1
    p[bad] = np.eye(8)[7]  # certain of the fastest bin, on one task
    found = weakness(forecasts_of(labels.query_id.tolist(), p), labels)
    assert found.tasks[0].name == labels.tasks[1]
    assert found.tasks[0].share == pytest.approx(1.0) and found.tasks[0].bias and found.tasks[0].bias > 1
    assert [part.loss for part in found.tasks[1:]] == pytest.approx([0.0, 0.0], abs=1e-12)
    slowest = np.flatnonzero(bad & labels.measured)[np.argmin(labels.speedup[bad & labels.measured])]
    assert all(miss.task == labels.tasks[1] for miss in found.misses)
    assert (found.misses[0].forecast_bin, found.misses[0].probability) == (8, 1.0)
    worst = [miss.bin for miss in found.misses]
    assert worst == sorted(worst) and worst[0] == labels.hard[slowest].argmax() + 1
    assert sum(part.share for part in found.classes) <= 1 + 1e-9
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["loss"] == "rps_excess"


def test_a_missing_answer_is_a_miss_without_a_forecast(labels: Labels) -> None:
    row = int(np.flatnonzero(labels.measured)[0])
    p = np.where(labels.measured[:, None], labels.mass, 1 / 8)
    kept = [i for i in range(len(labels)) if i != row]
    (miss, *others) = weakness(forecasts_of(labels.query_id[kept].tolist(), p[kept]), labels).misses
    assert (miss.query_id, miss.forecast_bin, miss.probability) == (str(labels.query_id[row]), None, None)
    assert all(other.loss < 1e-9 for other in others)


def test_a_perfect_forecaster_has_no_miss(labels: Labels) -> None:
    p = np.where(labels.measured[:, None], labels.mass, 1 / 8)
    assert max((m.loss for m in weakness(forecasts_of(labels.query_id.tolist(), p), labels).misses), default=0) < 1e-12


def test_behind_names_the_best_of_the_others(board: Board) -> None:
    results = board.results["pairs", "test"]
    lags = behind(results["poor"], [results["good"], results["twin"]])
    assert lags and {lag["by"] for lag in lags} <= {"good", "twin"}
    for lag in lags:
        assert lag["value"] == results["poor"].metrics[lag["metric"]].value
        assert lag["best"] == results["good"].metrics[lag["metric"]].value
    assert behind(results["good"], [results["twin"]]) == behind(results["good"], []) == []
