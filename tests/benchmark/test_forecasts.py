"""The forecast file: what is written comes back, and every fault is one clear line that names the place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmark.forecasts import COLUMNS, ForecastError, read_forecasts, write_forecasts
from benchmark.query import Forecast, Query

METADATA = {"dataset": "d", "track": "pairs", "surrogate": "s", "configuration": {"b": 1, "a": [2]}}
FLAT = (0.125,) * 8


def _queries(n: int) -> list[Query]:
    return [Query(f"q-{i}", "pairs", "t", "", "parent", "", "", None, "gpu") for i in range(n)]


def _columns(n: int = 4, **changes: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {"query_id": [f"q-{i}" for i in range(n)], **{f"p{b}": [0.125] * n for b in range(1, 9)}}
    return {k: v for k, v in {**columns, **changes}.items() if v is not None}


def _file(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "forecasts.parquet"
    pq.write_table(pa.table(_columns(**changes)), path)
    return path


def _message(path: Path, expected: list[str] | None = None) -> str:
    with pytest.raises(ForecastError) as caught:
        read_forecasts(path, expected)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message.removeprefix(str(path))


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "forecasts.parquet"
    given = [
        Forecast(FLAT, log2_speedup=0.5, rank_score=2.0, p_fail=0.1, seconds=1.5, input_tokens=10, output_tokens=20),
        Forecast(None, status="unparsed", input_tokens=7),
        Forecast((1, 0, 0, 0, 0, 0, 0, 0), rank_score=-1.0),
    ]
    write_forecasts(path, _queries(3), given, METADATA)
    found = read_forecasts(path, ["q-0", "q-1", "q-2", "q-3"])
    assert found.query_id.tolist() == ["q-0", "q-1", "q-2"]
    assert found.status.tolist() == ["ok", "unparsed", "ok"]
    assert found.probabilities[0].tolist() == list(FLAT)
    assert np.isnan(found.probabilities[1]).all()
    assert found.rank_score is not None
    assert np.array_equal(found.rank_score, [2.0, np.nan, -1.0], equal_nan=True)
    assert np.array_equal(found.log2_speedup, [0.5, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(found.p_fail, [0.1, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(found.input_tokens, [10, 7, np.nan], equal_nan=True)
    assert found.repeat.tolist() == [0, 0, 0]
    assert found.metadata["surrogate"] == "s"
    assert json.loads(found.metadata["configuration"]) == METADATA["configuration"]
    assert sorted(pq.read_schema(path).names) == sorted(COLUMNS)


def test_repeats_are_numbered(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    write_forecasts(path, _queries(2) * 2, [Forecast(FLAT)] * 4, METADATA, repeats=[0, 0, 1, 1])
    assert read_forecasts(path).repeat.tolist() == [0, 0, 1, 1]
    assert read_forecasts(path).rank_score is None


def test_a_repeat_of_few_ids_beside_a_whole_one_is_refused(tmp_path: Path) -> None:
    ids = [f"q-{i}" for i in range(10)]

    def repeats(*parts: list[str]) -> Path:
        n, number = sum(map(len, parts)), [r for r, part in enumerate(parts) for _ in part]
        return _file(tmp_path, n=n, query_id=[i for part in parts for i in part], repeat=number)

    message = _message(repeats(ids, ids[:4], ids))
    assert message == ", row 10, field 'repeat': found 1, expected a repeat of about all 10 ids; this one has 4, and " \
        "another has all"  # fmt: skip
    assert len(read_forecasts(repeats(ids, ids[:5], ids[1:]))) == 24
    assert len(read_forecasts(repeats(ids[:4], ids[4:]))) == 10  # no repeat has all


def test_an_existing_file_is_not_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    write_forecasts(path, _queries(1), [Forecast(FLAT)], METADATA)
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="exists"):
        write_forecasts(path, _queries(2), [Forecast(FLAT)] * 2, METADATA)
    assert path.read_bytes() == before
    write_forecasts(path, _queries(2), [Forecast(FLAT)] * 2, METADATA, overwrite=True)
    assert len(read_forecasts(path)) == 2


@pytest.mark.parametrize(("forecasts", "message"), [
    ([Forecast(FLAT)], "1 forecasts for 2 queries"),
    ([Forecast(FLAT), Forecast((0.5, 0.5))], "row 1: 2 probabilities, expected 8"),
    ([Forecast(FLAT), Forecast((0.05,) * 8)], r"row 1, field 'p1\.\.p8': found 'a sum of 0\.4'"),
    ([Forecast(FLAT), Forecast(None)], "row 1, field 'p1': found None"),
    ([Forecast(FLAT), Forecast(FLAT, status="lost")], "row 1, field 'status': found 'lost'"),
])  # fmt: skip
def test_a_bad_forecast_is_not_written(tmp_path: Path, forecasts: list[Forecast], message: str) -> None:
    path = tmp_path / "f.parquet"
    with pytest.raises(ForecastError, match=message):
        write_forecasts(path, _queries(2), forecasts, METADATA)
    assert not path.exists()


def test_a_file_that_cannot_take_its_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "f.parquet" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_forecasts(tmp_path / "f.parquet", _queries(1), [Forecast(FLAT)], METADATA, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["f.parquet"]


def test_metadata_says_what_the_file_is_for(tmp_path: Path) -> None:
    with pytest.raises(ForecastError, match="metadata 'track' is missing"):
        write_forecasts(tmp_path / "f.parquet", _queries(1), [Forecast(FLAT)], {"dataset": "d"})


def test_query_id_and_probabilities_are_enough(tmp_path: Path) -> None:
    found = read_forecasts(_file(tmp_path))
    assert found.status.tolist() == ["ok"] * 4
    assert found.rank_score is None


def test_integers_and_single_precision_are_cast_and_small_errors_renormalised(tmp_path: Path) -> None:
    ones = {f"p{b}": pa.array([int(b == 2)] * 4, pa.int32()) for b in range(1, 9)}
    assert read_forecasts(_file(tmp_path, **ones)).probabilities[0].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    single = {f"p{b}": pa.array([0.1250004] * 4, pa.float32()) for b in range(1, 9)}
    assert read_forecasts(_file(tmp_path, **single, repeat=[0.0] * 4)).probabilities.sum(axis=1) == pytest.approx(
        1.0, abs=1e-15
    )


@pytest.mark.parametrize(("changes", "message"), [
    ({"p3": None}, "column 'p3' is missing"),
    ({"query_id": None}, "column 'query_id' is missing"),
    ({"confidence": [1.0] * 4}, "unknown column 'confidence'"),
    ({"p1": [0.125, 0.0, 0.125, 0.125]}, "row 1, field 'p1..p8': found 'a sum of 0.875'"),
    ({"p1": [0.125, 0.1252, 0.125, 0.125]}, "row 1, field 'p1..p8'"),
    ({"p2": [0.125, 0.125, float("nan"), 0.125]}, "row 2, field 'p2': found nan"),
    ({"p2": [0.125, 0.125, float("inf"), 0.125]}, "row 2, field 'p2': found inf"),
    ({"p2": [0.125, 0.125, None, 0.125]}, "row 2, field 'p2': found None"),
    ({"p8": [0.125, 0.125, 0.125, -0.125]}, "row 3, field 'p8': found -0.125"),
    ({"p4": ["0.125"] * 4}, "field 'p4' has type string, expected double"),
    ({"p4": [True] * 4}, "field 'p4' has type bool, expected double"),
    ({"query_id": [1, 2, 3, 4]}, "field 'query_id' has type int64, expected string"),
    ({"query_id": ["q-0", "q-1", "q-1", "q-3"]}, "row 2, field 'query_id, repeat': found ('q-1', 0)"),
    ({"query_id": ["q-0", None, "q-2", "q-3"]}, "row 1, field 'query_id': found None"),
    ({"status": ["ok", "ok", "fine", "ok"]}, "row 2, field 'status': found 'fine'"),
    ({"status": ["ok", "ok", None, "ok"]}, "row 2, field 'status': found None"),
    ({"status": ["ok", "refused", "ok", "ok"]}, "row 1, field 'p1': found 0.125, expected null"),
    ({"repeat": [0, 0, -1, 0]}, "row 2, field 'repeat': found -1"),
    ({"repeat": [0.5] * 4}, "field 'repeat' has values that are not int64"),
    ({"repeat": pa.array([0, None, 0, 0], pa.int64())}, "row 1, field 'repeat': found None"),
    ({"p_fail": [0.1, 1.1, 0.1, 0.1]}, "row 1, field 'p_fail': found 1.1"),
    ({"log2_speedup": [0.1, None, 1e9, 0.1]}, "row 2, field 'log2_speedup': found 1000000000.0"),
    ({"log2_speedup": [0.1, float("inf"), 0.1, 0.1]}, "row 1, field 'log2_speedup': found inf"),
    ({"rank_score": [0.1, float("nan"), 0.1, 0.1]}, "row 1, field 'rank_score': found nan"),
    ({"rank_score": [0.1, None, 0.1, 0.1]}, "row 1, field 'rank_score': found None"),
    ({"seconds": [0.1, -2.0, 0.1, 0.1]}, "row 1, field 'seconds': found -2.0"),
    ({"n": 0, "query_id": pa.array([], pa.string())}, "no rows"),
])  # fmt: skip
def test_a_fault_names_the_row_and_the_field(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    assert message in _message(_file(tmp_path, **changes))


def test_an_unknown_id_is_named_and_a_missing_one_is_not_an_error(tmp_path: Path) -> None:
    path = _file(tmp_path)
    assert "row 3, field 'query_id': found 'q-3'" in _message(path, ["q-0", "q-1", "q-2"])
    assert len(read_forecasts(path, [f"q-{i}" for i in range(9)])) == 4


def test_files_that_are_no_parquet(tmp_path: Path) -> None:
    path = _file(tmp_path)
    whole = path.read_bytes()
    for content, message in ((b"", "the file is empty"), (b'{"p1": 1}\n', "not Parquet"), (b"PAR1PAR1", "not Parquet")):
        path.write_bytes(content)
        assert message in _message(path)
    for length in (4, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert "not Parquet, or cut short" in _message(path)
    damaged = bytearray(whole)
    damaged[4:60] = b"\xff" * 56
    path.write_bytes(damaged)
    assert "not Parquet, or cut short" in _message(path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_forecasts(tmp_path / "absent.parquet")
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_forecasts(tmp_path)


def test_a_column_named_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table = pa.table(_columns())
    pq.write_table(table.append_column("p1", table.column("p1")), path)
    assert "column 'p1' occurs more than once" in _message(path)
