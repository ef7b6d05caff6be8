"""Record tables as Parquet files: one way to write them, one way to read them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.records import SCHEMA_VERSION, RecordError, schema, validate

if TYPE_CHECKING:
    import pyarrow as pa

MAX_GROUP_ROWS = 65_536
MAX_GROUP_BYTES = 64 << 20  # of Arrow memory: keeps the 32-bit offsets of a string column far from their limit
# A dictionary holds each source once, and is compressed as one page: with the default of 1 MiB a table of kernels falls
# back to plain pages, where a parent's code is stored again for every child.
MAX_DICTIONARY_BYTES = 32 << 20
COMPRESSION_LEVEL = 12


def write_table(name: str, table: pa.Table, path: Path) -> None:
    """Write a record table, validated, with zstd and dictionaries; equal tables give equal bytes.

    Raises RecordError if the table breaks the schema `name`. The file appears whole or not at all.
    """
    import pyarrow.parquet as pq

    validate(name, table, where=str(path))
    table = table.select(schema(name).names).cast(schema(name)).combine_chunks()
    rows = MAX_GROUP_ROWS
    if table.nbytes > MAX_GROUP_BYTES:
        rows = max(1, min(rows, table.num_rows * MAX_GROUP_BYTES // table.nbytes))
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    pq.write_table(
        table,
        partial,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=True,
        dictionary_pagesize_limit=MAX_DICTIONARY_BYTES,
        row_group_size=rows,
    )
    os.replace(partial, path)


def read_table(path: Path, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a record table, or some of its columns, in the file's row order.

    Raises FileNotFoundError, and RecordError for a file that is cut, is not Parquet, has another schema version, or
    lacks a column or holds one of another type.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    want = schema(name)
    unknown = [c for c in columns or () if c not in want.names]
    if unknown:
        raise RecordError(f"table {name} has no column '{unknown[0]}'; its columns are {', '.join(want.names)}")
    try:
        file = pq.ParquetFile(path)
        metadata = file.schema_arrow.metadata or {}
        _check_header(path, name, file.schema_arrow, metadata, list(columns or want.names))
        table = file.read(columns=list(columns) if columns else want.names)
    except RecordError:
        raise
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RecordError(f"{path}: not a whole Parquet file ({reason}); restore it from the repository") from None
    return table.select(list(columns)) if columns else table.select(want.names)


def _check_header(
    path: Path, name: str, found: pa.Schema, metadata: dict[bytes, bytes], columns: Sequence[str]
) -> None:
    version = metadata.get(b"schema_version", b"").decode()
    if version != str(SCHEMA_VERSION):
        raise RecordError(
            f"{path}: schema_version is '{version}', expected '{SCHEMA_VERSION}'; package the dataset again"
        )
    kind = metadata.get(b"table", b"").decode()
    if kind != name:
        raise RecordError(f"{path}: the file holds table '{kind}', expected '{name}'")
    want = schema(name)
    for column in columns:
        if column not in found.names:
            raise RecordError(f"{path}: column '{column}' is missing; expected columns {', '.join(want.names)}")
        if found.field(column).type != want.field(column).type:
            raise RecordError(
                f"{path}: field '{column}' has type {found.field(column).type}, expected {want.field(column).type}"
            )
