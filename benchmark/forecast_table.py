"""What a table of forecasts has to satisfy, and the arrays that come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from benchmark.bins import BINS

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


def checked(table: pa.Table, source: str, expected: set[str] | None, metadata: Mapping[str, str]) -> Forecasts:
    """Return a table as arrays; raises ForecastError, by row and field, unless it follows all the rules.

    `expected` are the query ids that may occur, if they are known; `source` is what messages call the table.
    """
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
