"""The forecast file: one Parquet row for each query and repeat, with eight probabilities and what they cost."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from benchmark.bins import BINS
from benchmark.query import Forecast, Query

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]

PROBABILITIES = tuple(f"p{b}" for b in BINS)
STATUSES = ("ok", "unparsed", "refused", "error")
SUM_TOLERANCE = 1e-4
LOG2_LIMIT = 64  # no kernel is 2^64 times faster than another: a larger number is a unit mistaken or a sentinel
METADATA = ("dataset", "track", "surrogate", "configuration")

_REQUIRED = ("query_id", *PROBABILITIES)
_FLOATS = ("log2_speedup", "rank_score", "p_fail", "seconds")
_INTS = ("repeat", "input_tokens", "output_tokens")
COLUMNS = (
    *_REQUIRED, "log2_speedup", "rank_score", "p_fail", "repeat", "status", "seconds", "input_tokens", "output_tokens",
)  # fmt: skip


class ForecastError(ValueError):
    """A forecast file breaks its rules; the message names the file, the row and the field."""


@dataclass(frozen=True)
class Forecasts:
    """A forecast file as arrays, all of length n.

    `probabilities`, shape (n, 8), sum to one and are NaN where the status is not `ok`. Optional numbers are NaN where
    they are not given; `rank_score` is None when no row has one.
    """

    query_id: npt.NDArray[np.object_]
    repeat: npt.NDArray[np.int64]
    probabilities: Floats
    status: npt.NDArray[np.object_]
    log2_speedup: Floats
    rank_score: Floats | None
    p_fail: Floats
    seconds: Floats
    input_tokens: Floats
    output_tokens: Floats
    metadata: Mapping[str, str]
    source: str

    def __len__(self) -> int:
        return len(self.query_id)


def write_forecasts(
    path: str | os.PathLike[str],
    queries: Sequence[Query],
    forecasts: Sequence[Forecast],
    metadata: Mapping[str, Any],
    *,
    repeats: Sequence[int] | None = None,
    overwrite: bool = False,
) -> None:
    """Write one row for each query and its forecast, in their order; `repeats` numbers repeated answers, from 0.

    `metadata` needs the keys dataset, track, surrogate and configuration (JSON, or a mapping that becomes it). The file
    appears whole or not at all. Raises ForecastError for forecasts that could not be read back, and FileExistsError.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = Path(path)
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists; choose another name or ask for it to be overwritten")
    if len(queries) != len(forecasts):
        raise ForecastError(f"{target}: {len(forecasts)} forecasts for {len(queries)} queries, expected one for each")
    missing = [key for key in METADATA if key not in metadata]
    if missing:
        raise ForecastError(f"{target}: metadata '{missing[0]}' is missing; expected {', '.join(METADATA)}")
    numbers = [0] * len(queries) if repeats is None else list(repeats)
    columns: dict[str, pa.Array] = {"query_id": pa.array([q.query_id for q in queries], pa.string())}
    for b, name in enumerate(PROBABILITIES):
        columns[name] = pa.array([_probability(f, b, row, target) for row, f in enumerate(forecasts)], pa.float64())
    for name in ("log2_speedup", "rank_score", "p_fail"):
        columns[name] = pa.array([_number(getattr(f, name)) for f in forecasts], pa.float64())
    columns["repeat"] = pa.array([int(n) for n in numbers], pa.int64())
    columns["status"] = pa.array([f.status for f in forecasts], pa.string())
    columns["seconds"] = pa.array([_number(f.seconds) for f in forecasts], pa.float64())
    for name in ("input_tokens", "output_tokens"):
        columns[name] = pa.array([getattr(f, name) for f in forecasts], pa.int64())
    table = pa.table(columns)
    _arrays(table, str(target), None, {})
    text = {k: v if isinstance(v, str) else json.dumps(v, sort_keys=True, allow_nan=False) for k, v in metadata.items()}
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".partial")
    try:
        pq.write_table(table.replace_schema_metadata(text), partial, compression="zstd")
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _probability(forecast: Forecast, index: int, row: int, target: Path) -> float | None:
    p = forecast.probabilities
    if p is None:
        return None
    if len(p) != len(PROBABILITIES):
        raise ForecastError(f"{target}, row {row}: {len(p)} probabilities, expected {len(PROBABILITIES)}")
    return float(p[index])


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def read_forecasts(
    path: str | os.PathLike[str],
    expected_ids: Collection[str] | None = None,
    *,
    dataset: str | None = None,
    track: str | None = None,
) -> Forecasts:
    """Read and check a forecast file; rows are numbered from 0 in messages.

    `expected_ids` are the query ids that may occur; a query without a row is not an error, it lowers the coverage. A
    file whose metadata names another dataset or track than those given is refused before its rows are looked at.
    Probabilities that sum to 1 within 1e-4 are renormalised. Raises FileNotFoundError, or ForecastError for anything
    that is not a valid forecast file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = os.fspath(path)
    if not os.path.isfile(source):
        raise FileNotFoundError(f"{source}: no such file; `kernelcast forecast --out` writes one")
    if not os.path.getsize(source):
        raise ForecastError(f"{source}: the file is empty; write it again with `kernelcast forecast --out`")
    try:
        table = pq.ParquetFile(source).read()
    except (pa.ArrowException, OSError) as error:
        detail = " ".join(str(error).split())[:120]
        advice = "write it again with `kernelcast forecast --out`"
        raise ForecastError(f"{source}: not Parquet, or cut short ({detail}); {advice}") from None
    found = table.schema.metadata or {}
    metadata = {k.decode(errors="replace"): v.decode(errors="replace") for k, v in found.items()}
    check_made_for(metadata, source, dataset, track)
    return _arrays(table, source, None if expected_ids is None else set(expected_ids), metadata)


def check_made_for(metadata: Mapping[str, str], source: str, dataset: str | None, track: str | None) -> None:
    """Raise ForecastError if a file's metadata names another dataset or track than the one it is scored on."""
    for key, asked in (("dataset", dataset), ("track", track)):
        found = metadata.get(key)
        if asked is not None and found is not None and found != asked:
            raise ForecastError(f"{source}: made for {key} '{found}', and is scored on {key} '{asked}'")


def _fail(source: str, row: int, field: str, found: Any, expected: str) -> None:
    raise ForecastError(f"{source}, row {row}, field '{field}': found {found!r}, expected {expected}")


def _column(table: pa.Table, name: str, kind: pa.DataType, source: str) -> pa.ChunkedArray:
    """Return a column cast to its type; null when an optional one is absent. Numbers are never parsed from text."""
    import pyarrow as pa

    if name not in table.column_names:
        return pa.chunked_array([pa.nulls(table.num_rows, kind)])
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    found = column.type
    number = pa.types.is_integer(found) or pa.types.is_floating(found)
    text = pa.types.is_string(found) or pa.types.is_large_string(found)
    if not (pa.types.is_null(found) or (text if kind == pa.string() else number)):
        raise ForecastError(f"{source}: field '{name}' has type {found}, expected {kind}")
    try:
        return column.cast(kind)
    except pa.ArrowInvalid as error:
        raise ForecastError(f"{source}: field '{name}' has values that are not {kind} ({error})") from None


def _arrays(table: pa.Table, source: str, expected: set[str] | None, metadata: Mapping[str, str]) -> Forecasts:
    """Check a table against all the rules and return it as arrays."""
    import pyarrow as pa

    for name in _REQUIRED:
        if name not in table.column_names:
            raise ForecastError(f"{source}: column '{name}' is missing; expected columns {', '.join(COLUMNS)}")
    for name in table.column_names:
        if name not in COLUMNS:
            raise ForecastError(f"{source}: unknown column '{name}'; expected columns {', '.join(COLUMNS)}")
        if table.column_names.count(name) > 1:
            raise ForecastError(f"{source}: column '{name}' occurs more than once")
    if not table.num_rows:
        raise ForecastError(f"{source}: no rows, expected one for each query")
    ids = _column(table, "query_id", pa.string(), source).to_numpy()
    status = _column(table, "status", pa.string(), source).to_numpy()
    if "status" not in table.column_names:
        status = np.full(table.num_rows, "ok", dtype=object)
    numbers, null = {}, {}
    for name in (*PROBABILITIES, *_FLOATS):
        column = _column(table, name, pa.float64(), source)
        null[name] = np.asarray(column.is_null().to_numpy(), dtype=bool)
        numbers[name] = np.array(column.to_numpy(), dtype=np.float64)
    for name in _INTS:
        column = _column(table, name, pa.int64(), source)
        null[name] = np.asarray(column.is_null().to_numpy(), dtype=bool)
        numbers[name] = np.array(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    if "repeat" not in table.column_names:
        numbers["repeat"], null["repeat"] = np.zeros(table.num_rows), np.zeros(table.num_rows, dtype=bool)
    _check_values(source, ids, status, numbers, null)
    ok = status == "ok"
    p = np.stack([numbers[name] for name in PROBABILITIES], axis=1)
    sums = p.sum(axis=1)
    off = ok & ~(np.abs(sums - 1) <= SUM_TOLERANCE)
    if off.any():
        row = int(off.argmax())
        _fail(source, row, "p1..p8", f"a sum of {sums[row]:.6g}", f"1 within {SUM_TOLERANCE:g}")
    repeat = numbers["repeat"].astype(np.int64)
    _check_keys(source, ids, repeat, expected)
    _check_repeats(source, ids, repeat)
    return Forecasts(
        query_id=ids,
        repeat=repeat,
        probabilities=p / sums[:, None],
        status=status,
        rank_score=None if null["rank_score"][ok].all() else numbers["rank_score"],
        metadata=dict(metadata),
        source=source,
        **{name: numbers[name] for name in ("log2_speedup", "p_fail", "seconds", "input_tokens", "output_tokens")},
    )


def _check_values(
    source: str,
    ids: npt.NDArray[np.object_],
    status: npt.NDArray[np.object_],
    numbers: Mapping[str, Floats],
    null: Mapping[str, npt.NDArray[np.bool_]],
) -> None:
    ok = status == "ok"

    def check(bad: npt.NDArray[np.bool_], field: str, found: npt.NDArray[Any], expected: str) -> None:
        if bad.any():
            row = int(bad.argmax())
            value = None if field in null and null[field][row] else found[row]
            _fail(source, row, field, value.item() if isinstance(value, np.generic) else value, expected)

    check(np.array([i is None or i == "" for i in ids], dtype=bool), "query_id", ids, "a query id")
    check(~np.isin(status.astype(str), STATUSES), "status", status, "one of " + ", ".join(STATUSES))
    for name in PROBABILITIES:
        values = numbers[name]
        check(ok & null[name], name, values, "a probability, because status is 'ok'")
        check(~ok & ~null[name], name, values, "null, because status is not 'ok'")
        check(ok & ~np.isfinite(values), name, values, "a finite probability")
        check(ok & ((values < 0) | (values > 1 + SUM_TOLERANCE)), name, values, "a probability in [0, 1]")
    for name in _FLOATS:
        check(~null[name] & ~np.isfinite(numbers[name]), name, numbers[name], "a finite number or null")
    log2 = numbers["log2_speedup"]
    check(np.abs(log2) > LOG2_LIMIT, "log2_speedup", log2, f"a number in [-{LOG2_LIMIT}, {LOG2_LIMIT}], or null")
    p_fail = numbers["p_fail"]
    check(~null["p_fail"] & ((p_fail < 0) | (p_fail > 1)), "p_fail", p_fail, "a probability in [0, 1]")
    for name in (*_INTS, "seconds"):
        check(~null[name] & (numbers[name] < 0), name, numbers[name], "a number that is not negative")
    check(null["repeat"], "repeat", numbers["repeat"], "an integer from 0")
    if not null["rank_score"][ok].all():
        check(ok & null["rank_score"], "rank_score", numbers["rank_score"], "a number, because other rows have one")


def _check_keys(
    source: str, ids: npt.NDArray[np.object_], repeat: npt.NDArray[np.int64], expected: set[str] | None
) -> None:
    seen: dict[tuple[str, int], int] = {}
    for row, key in enumerate(zip(ids.tolist(), repeat.tolist(), strict=True)):
        if expected is not None and key[0] not in expected:
            _fail(source, row, "query_id", key[0], "the id of a query of this dataset, track and split")
        if key in seen:
            _fail(source, row, "query_id, repeat", key, f"a pair not used before (row {seen[key]} has it)")
        seen[key] = row


def _check_repeats(source: str, ids: npt.NDArray[np.object_], repeat: npt.NDArray[np.int64]) -> None:
    """Refuse a repeat with under half of the ids beside one with all: each counts alike, and its gaps as no answer."""
    numbers, first, rows = np.unique(repeat, return_index=True, return_counts=True)
    total = len(set(ids.tolist()))
    short = np.flatnonzero(2 * rows < total)
    if rows.max() == total and len(short):
        k = int(short[np.argmin(first[short])])
        expected = f"a repeat of about all {total} ids; this one has {rows[k]}, and another has all"
        _fail(source, int(first[k]), "repeat", int(numbers[k]), expected)
