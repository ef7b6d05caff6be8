from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmark.parquet import read_table, write_table
from benchmark.records import SCHEMA_VERSION, RecordError, schema


def tasks_table(n: int = 3, **columns: Any) -> pa.Table:
    rows = {name: [f"{name} {i}" for i in range(n)] for name in schema("tasks").names} | columns
    return pa.table(rows, schema=schema("tasks"))


def test_round_trip_keeps_rows_schema_and_version(tmp_path: Path) -> None:
    path = tmp_path / "tasks.parquet"
    write_table("tasks", tasks_table(), path)
    assert read_table(path, "tasks").equals(tasks_table())
    metadata = pq.read_metadata(path).metadata
    assert metadata[b"schema_version"] == str(SCHEMA_VERSION).encode() and metadata[b"table"] == b"tasks"
    assert [p.name for p in tmp_path.iterdir()] == ["tasks.parquet"]


def test_equal_tables_give_equal_bytes_whatever_their_chunks(tmp_path: Path) -> None:
    write_table("tasks", tasks_table(4), tmp_path / "a.parquet")
    halves = pa.concat_tables([tasks_table(4).slice(0, 1), tasks_table(4).slice(1)])
    write_table("tasks", halves.select(list(reversed(schema("tasks").names))), tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_large_text_is_divided_into_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "tasks.parquet"
    table = tasks_table(96, statement=[chr(65 + i % 26) * (1 << 20) for i in range(96)])
    write_table("tasks", table, path)
    assert pq.read_metadata(path).num_row_groups >= 2
    assert read_table(path, "tasks").equals(table)


def test_columns_come_in_the_order_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "tasks.parquet"
    write_table("tasks", tasks_table(), path)
    assert read_table(path, "tasks", ["statement", "task"]).column_names == ["statement", "task"]
    with pytest.raises(RecordError, match="table tasks has no column 'speed'; its columns are task, source"):
        read_table(path, "tasks", ["speed"])


def test_a_row_that_breaks_the_schema_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "tasks.parquet"
    with pytest.raises(RecordError, match=r"tasks.parquet, row 2, field 'task': found 'a', expected .*row 0"):
        write_table("tasks", tasks_table(task=["a", "b", "a"]), path)
    assert not path.exists()


def raw(path: Path, table: pa.Table, /, **metadata: str) -> None:
    pq.write_table(
        table.replace_schema_metadata({"schema_version": str(SCHEMA_VERSION), "table": "tasks", **metadata}), path
    )


@pytest.mark.parametrize("keep", [0, 3, 200, -1])
def test_a_cut_file_gives_one_line(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "tasks.parquet"
    write_table("tasks", tasks_table(), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(RecordError) as caught:
        read_table(path, "tasks")
    assert str(path) in str(caught.value) and "not a whole Parquet file" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_files_are_named_as_what_they_are(tmp_path: Path) -> None:
    path = tmp_path / "tasks.parquet"
    path.write_text("task,source\n" * 50)
    with pytest.raises(RecordError, match="not a whole Parquet file"):
        read_table(path, "tasks")
    with pytest.raises(FileNotFoundError, match=r"absent.parquet"):
        read_table(tmp_path / "absent.parquet", "tasks")
    raw(path, tasks_table(), table="nodes")
    with pytest.raises(RecordError, match="holds table 'nodes', expected 'tasks'"):
        read_table(path, "tasks")
    raw(path, tasks_table(), schema_version="99")
    with pytest.raises(RecordError, match=f"schema_version is '99', expected '{SCHEMA_VERSION}'"):
        read_table(path, "tasks")
    raw(path, tasks_table().drop_columns(["facts"]))
    with pytest.raises(RecordError, match="column 'facts' is missing"):
        read_table(path, "tasks")
    raw(path, tasks_table().set_column(3, "statement", pa.array([1, 2, 3])))
    with pytest.raises(RecordError, match="field 'statement' has type int64, expected string"):
        read_table(path, "tasks")
