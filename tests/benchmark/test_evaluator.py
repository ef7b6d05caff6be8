"""The Evaluator: it says what it expects, refuses what it cannot score by row and field, and hands out every figure."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import kernelcast
from benchmark import Evaluator, score
from benchmark.data_access import DataError, load_queries
from benchmark.evaluator import CoverageWarning, Evaluation
from benchmark.forecasts import ForecastError, read_forecasts, write_forecasts
from benchmark.metrics.catalogue import METRICS
from benchmark.query import Forecast

NAME = "synthetic"
SPLITS = ("test", "test_unseen_task")


@pytest.fixture(autouse=True)
def _find_data(synthetic_dataset: Path) -> None:
    """Every test loads from the synthetic dataset."""


@pytest.fixture
def frame(synthetic_dataset: Path) -> pd.DataFrame:
    ids = [q.query_id for split in SPLITS for q in load_queries("pairs", split, NAME)]
    p = np.random.default_rng(0).dirichlet(np.ones(8), len(ids))
    return pd.DataFrame({"query_id": ids, **{f"p{b + 1}": p[:, b] for b in range(8)}})


@pytest.fixture
def evaluator(synthetic_dataset: Path) -> Evaluator:
    return Evaluator(NAME, track="pairs", resamples=50)


def test_it_is_public_and_prints_what_it_expects(evaluator: Evaluator) -> None:
    assert kernelcast.Evaluator is Evaluator
    text = repr(evaluator)
    assert text == evaluator.describe()
    assert evaluator.splits == SPLITS
    for part in ("p1..p8", "query_id", "test_unseen_task", "log2_speedup, rank_score, p_fail", "under 95%", "ap_141"):
        assert part in text
    assert all(len(line) <= 120 for line in text.splitlines())


def test_a_frame_a_table_columns_and_a_file_get_the_same_scores(
    evaluator: Evaluator, frame: pd.DataFrame, tmp_path: Path
) -> None:
    queries = [q for split in SPLITS for q in load_queries("pairs", split, NAME)]
    forecasts = [Forecast(row) for row in frame.iloc[:, 1:].to_numpy().tolist()]
    path = tmp_path / "mine.parquet"
    metadata = {"dataset": NAME, "track": "pairs", "surrogate": "mine", "configuration": {}}
    write_forecasts(path, queries, forecasts, metadata)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    forms: list[Any] = [frame, frame.sample(frac=1, random_state=1), table, dict(frame), path, str(path)]
    found = [evaluator.evaluate(form, name="mine") for form in [*forms, read_forecasts(path)]]
    assert all(one == found[0] for one in found)
    assert found[0].results["test"] == score(path, "pairs", "test", NAME, resamples=50)


def test_the_frame_of_scores_holds_every_figure_of_every_split_and_task(
    evaluator: Evaluator, frame: pd.DataFrame
) -> None:
    found = evaluator.evaluate(frame, name="mine")
    assert isinstance(found, Evaluation)
    table = found.to_dataframe()
    assert set(table.columns) >= {
        "name",
        "dataset",
        "track",
        "split",
        "task",
        "metric",
        "value",
        "low",
        "high",
        "reason",
    }
    tasks = sum(1 + len(result.per_task) for result in found.results.values())
    assert len(table) == tasks * len(METRICS["pairs"])
    row = table[(table.split == "test") & (table.task == "mean") & (table.metric == "rps")].iloc[0]
    assert row.value == found.results["test"].metrics["rps"].value
    assert table[table.value.isna()].reason.notna().all()
    assert found.to_dict()["rows"][0]["split"] == "test"
    assert "ap_141" in str(found) and "100.0% answered" in str(found)
    assert found.headline["test"] == found.results["test"].headline
    assert found.unranked("test") is None


def _cell(frame: pd.DataFrame, column: str, row: int, value: Any) -> pd.DataFrame:
    return frame.assign(**{column: frame[column].where(frame.index != row, value)})


def _halved(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(**{f"p{b}": frame[f"p{b}"] / 2 for b in range(1, 9)})


@pytest.mark.parametrize(("change", "message"), [
    (lambda f: _cell(f, "p1", 3, np.inf), "row 3, field 'p1': found inf, expected a finite probability"),
    (lambda f: _cell(f, "p1", 3, np.nan), "row 3, field 'p1': found None, expected a probability"),
    (lambda f: _cell(f, "p2", 2, -0.1), r"row 2, field 'p2': found -0\.1, expected a probability in"),
    (_halved, r"row 0, field 'p1\.\.p8': found 'a sum of 0\.5'"),
    (lambda f: _cell(f, "query_id", 4, "p-of-nobody"), "row 4, field 'query_id': found 'p-of-nobody'"),
    (lambda f: pd.concat([f, f.iloc[[1]]]), r"field 'query_id, repeat': .* a pair not used before \(row 1"),
    (lambda f: f.assign(score=1.0), "unknown column 'score'"),
    (lambda f: f.drop(columns="p8"), "column 'p8' is missing"),
    (lambda f: f.assign(p1=f.p1.astype(str)), "field 'p1' has type"),
    (lambda f: f.iloc[:0], "no rows"),
    (lambda f: 7, "not a table .*expected an Arrow table, a pandas frame"),
    (lambda f: {"query_id": ["a", "b"], "p1": [0.5]}, "not a table"),
])  # fmt: skip
def test_what_cannot_be_scored_is_refused_by_row_and_field(
    evaluator: Evaluator, frame: pd.DataFrame, change: Any, message: str
) -> None:
    for use in (evaluator.validate, evaluator.evaluate):
        with pytest.raises(ForecastError, match=message) as caught:
            use(change(frame))
        assert "\n" not in str(caught.value)


def test_partial_coverage_is_said_aloud_and_costs(evaluator: Evaluator, frame: pd.DataFrame) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluator.evaluate(frame)
    ids = {q.query_id for q in load_queries("pairs", "test", NAME)}
    kept = frame[~frame.query_id.isin(sorted(ids)[: len(ids) // 10])]
    with pytest.warns(CoverageWarning, match=r"queries of split 'test' are not answered.*under 95%"):
        found = evaluator.evaluate(kept)
    assert "under 95%" in str(found.unranked("test")) and "not ranked" in str(found)
    assert found.unranked("test_unseen_task") is None
    only_test = frame[frame.query_id.isin(ids)]
    with pytest.raises(ForecastError, match=r"no forecast of split 'test_unseen_task'.*split='test'"):
        evaluator.evaluate(only_test)
    one = Evaluator(NAME, track="pairs", split="test", resamples=50).evaluate(only_test, name="x")
    assert one.results["test"] == evaluator.evaluate(frame, name="x").results["test"]


def test_wrong_names_are_refused_when_it_is_made(evaluator: Evaluator, frame: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"track 'pears' .*; known: pairs, eval, pool, replay"):
        Evaluator(NAME, track="pears")
    with pytest.raises(ValueError, match=r"track 'end-to-end' .*needs a GPU"):
        Evaluator(NAME, track="end-to-end")
    with pytest.raises(DataError, match="unknown dataset 'h100'"):
        Evaluator("h100", track="pairs")
    with pytest.raises(DataError, match="unknown split 'tset'"):
        Evaluator(NAME, track="pairs", split="tset")
    with pytest.raises(ValueError, match="resamples is -1"):
        Evaluator(NAME, track="pairs", resamples=-1)
    with pytest.raises(ValueError, match="evaluate\\(\\) needs forecasts"):
        evaluator.evaluate(None)
    with pytest.raises(FileNotFoundError, match="no such file"):
        evaluator.evaluate("absent.parquet")
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata({"track": "pool"})
    with pytest.raises(ForecastError, match="made for track 'pool', and is scored on track 'pairs'"):
        evaluator.evaluate(table)
    stranger = read_like(frame.assign(query_id=[f"x-{i}" for i in range(len(frame))]))
    with pytest.raises(ForecastError, match="'x-0' is not the id of a query"):
        evaluator.evaluate(stranger)


def read_like(frame: pd.DataFrame) -> Any:
    """Return a frame as forecasts that were checked without knowing the queries."""
    from benchmark.forecasts import forecasts_of

    return forecasts_of(frame)
