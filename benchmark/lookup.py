"""Rows of a loaded table by their id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmark.locate import DEFAULT_DATASET, unknown
from benchmark.records import KEYS


class Lookup(Mapping[str, dict[str, Any]]):
    """A record table in memory, by id: `Lookup("kernels")["k-0123456789abcdef"]` is that row as a dictionary.

    Raises DataError, with the nearest id, for an id that is not there, or for a table without an id of one column.
    """

    def __init__(self, table: str, split: str | None = None, dataset: str = DEFAULT_DATASET) -> None:
        from benchmark.data_access import load_table

        single = tuple(name for name, key in KEYS.items() if len(key) == 1)
        if table in KEYS and table not in single:
            raise unknown("table with one id", table, single)
        self.table = load_table(table, split, dataset).combine_chunks()
        ids = self.table.column(KEYS[table][0]).to_pylist()
        self._name = KEYS[table][0]
        self._row = {key: row for row, key in enumerate(ids)}

    def __getitem__(self, key: str) -> dict[str, Any]:
        row = self._row.get(key)
        if row is None:
            raise unknown(self._name, key, (), f" among {len(self._row):,} rows")
        return {name: self.table.column(name)[row].as_py() for name in self.table.column_names}

    def __contains__(self, key: object) -> bool:
        return key in self._row

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)
