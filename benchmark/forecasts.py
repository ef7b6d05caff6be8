"""The forecast file: one Parquet row for each query and repeat, with eight probabilities and what they cost."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.forecast_table import (
    COLUMNS,
    LOG2_LIMIT,
    METADATA,
    PROBABILITIES,
    STATUSES,
    SUM_TOLERANCE,
    ForecastError,
    Forecasts,
    check_made_for,
    checked,
)
from benchmark.query import Forecast, Query

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = [
    "COLUMNS", "LOG2_LIMIT", "METADATA", "PROBABILITIES", "STATUSES", "SUM_TOLERANCE", "ForecastError", "Forecasts",
    "check_made_for", "forecasts_of", "read_forecasts", "write_forecasts",
]  # fmt: skip


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
    checked(table, str(target), None, {})
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
    return checked(table, source, None if expected_ids is None else set(expected_ids), metadata)


def forecasts_of(
    data: pa.Table | pd.DataFrame | Mapping[str, Any],
    expected_ids: Collection[str] | None = None,
    *,
    dataset: str | None = None,
    track: str | None = None,
    source: str = "forecasts",
) -> Forecasts:
    """Check forecasts in memory by the rules of `read_forecasts`; `source` is what messages call them.

    An Arrow table, a pandas frame (its index is not read, NaN is null), or columns by name. Raises ForecastError.
    """
    table = arrow_table(data, source, COLUMNS)
    found = table.schema.metadata or {}
    metadata = {k.decode(errors="replace"): v.decode(errors="replace") for k, v in found.items()}
    check_made_for(metadata, source, dataset, track)
    return checked(table, source, None if expected_ids is None else set(expected_ids), metadata)


def arrow_table(data: Any, source: str, columns: Sequence[str]) -> pa.Table:
    """Return an Arrow table, a pandas frame or columns by name as an Arrow table. Raises ForecastError for others."""
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    try:
        if isinstance(data, Mapping):
            return pa.table(dict(data))
        return pa.Table.from_pandas(data, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowException, TypeError, AttributeError, ValueError) as error:
        detail = " ".join(str(error).split())[:120]
        expected = f"an Arrow table, a pandas frame, or columns by name ({', '.join(columns)})"
        raise ForecastError(f"{source}: not a table ({detail}); expected {expected}") from None
