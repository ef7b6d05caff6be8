from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmark.data_access import load_table
from benchmark.records import KEYS, TABLES, RecordError, schema, validate


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_typed_schema_and_a_key_of_its_own_columns(name: str) -> None:
    found = schema(name)
    assert found.names == list(TABLES[name]) and set(KEYS[name]) <= set(found.names)
    assert not any(found.field(key).nullable for key in KEYS[name])
    assert found.metadata[b"table"] == name.encode()


@pytest.mark.parametrize("name", TABLES)
def test_an_empty_table_is_valid(name: str) -> None:
    validate(name, schema(name).empty_table())


@pytest.fixture
def kernels(synthetic_dataset: Path) -> pa.Table:
    return load_table("kernels", "test", "synthetic")


@pytest.fixture
def pairs(synthetic_dataset: Path) -> pa.Table:
    return load_table("pairs", "test", "synthetic")


def with_value(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    values = table.column(column).to_pylist()
    values[row] = value
    index = table.column_names.index(column)
    return table.set_column(index, table.schema.field(column), pa.array(values, table.schema.field(column).type))


def first(table: pa.Table, column: str, value: str, equal: bool = True) -> int:
    return next(i for i, v in enumerate(table.column(column).to_pylist()) if (v == value) == equal)


def test_real_rows_are_valid(kernels: pa.Table, pairs: pa.Table) -> None:
    validate("kernels", kernels)
    validate("pairs", pairs)


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("status", "broken", "one of ok, compile"),
        ("language", "fortran", "one of triton, cuda, torch"),
        ("speedup", -1.0, "a finite, positive number"),
        ("speedup", float("nan"), "a finite, positive number"),
        ("time_us_geomean", float("inf"), "a finite, positive number"),
        ("code", None, "a value of type string"),
        ("split", "dev", "one of train, validation"),
    ],
)
def test_a_bad_value_is_named_by_row_and_field(kernels: pa.Table, column: str, value: Any, expected: str) -> None:
    with pytest.raises(RecordError) as caught:
        validate("kernels", with_value(kernels, column, 2, value), where="file.parquet")
    message = str(caught.value)
    assert message.startswith(f"file.parquet, row 2, field '{column}': found") and expected in message


@pytest.mark.parametrize("column", ["speedup", "speedup_low", "speedup_high", "bin"])
def test_a_failed_row_carries_no_performance(kernels: pa.Table, pairs: pa.Table, column: str) -> None:
    value = 5 if column == "bin" else 1.2
    for name, table, status in (("kernels", kernels, "status"), ("pairs", pairs, "child_status")):
        row = first(table, status, "ok", equal=False)
        with pytest.raises(RecordError, match=rf"row {row}, field '{column}': .*null, because {status} is"):
            validate(name, with_value(table, column, row, value))


def test_the_bin_is_that_of_the_speedup(kernels: pa.Table) -> None:
    row = first(kernels, "status", "ok")
    wrong = kernels.column("bin")[row].as_py() % 8 + 1
    with pytest.raises(RecordError, match=rf"row {row}, field 'bin': found {wrong}, expected the bin"):
        validate("kernels", with_value(kernels, "bin", row, wrong))


def test_missing_unknown_and_mistyped_columns(kernels: pa.Table) -> None:
    with pytest.raises(RecordError, match="column 'code_view' is missing"):
        validate("kernels", kernels.drop_columns(["code_view"]))
    with pytest.raises(RecordError, match="unknown column 'note'"):
        validate("kernels", kernels.append_column("note", pa.array([""] * kernels.num_rows)))
    bins = kernels.column("bin").cast(pa.float64())
    with pytest.raises(RecordError, match="field 'bin' has type double, expected int64"):
        validate("kernels", kernels.set_column(kernels.column_names.index("bin"), "bin", bins))


def test_a_repeated_id_names_both_rows(kernels: pa.Table) -> None:
    with pytest.raises(RecordError, match=rf"row {kernels.num_rows}, field 'kernel_id'.*row 0 has it"):
        validate("kernels", pa.concat_tables([kernels, kernels.slice(0, 1)]))
