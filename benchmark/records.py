"""The record tables of a dataset: explicit Arrow schemas, and what makes a row valid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 2
STATUSES = ("ok", "compile", "runtime", "incorrect", "timeout", "oom", "rejected")
LANGUAGES = ("triton", "cuda", "torch")
ORIGINS = ("seed", "mutation", "llm", "upstream")
ANCHOR_KINDS = ("reference", "parent", "kernel")  # `kernel`: any other kernel, in the release of the paper only
OPERATOR_CLASSES = (
    "constants", "memory", "precision", "loop", "fusion", "algorithm", "recombination", "host",
)  # fmt: skip
TAUS = {"110": 1.1, "125": 1.25, "141": 2**0.5, "200": 2.0}
CHANGED_LOG2 = 0.043  # |log2 S| under 3% is not a change, whatever the interval says

_INTERVAL = {"speedup": "f64?", "speedup_low": "f64?", "speedup_high": "f64?", "bin": "i64?"}
# The same speedup from second sessions alone, null where a side was not measured again.
_SECOND = {"second_speedup": "f64?", "second_speedup_low": "f64?", "second_speedup_high": "f64?"}
_ENVIRONMENT = {"gpu": "str", "driver": "str", "cuda": "str", "torch": "str", "triton": "str", "harness_version": "str"}

_PAIR = {
    "pair_id": "str", "task": "str", "search_id": "str", "parent_id": "str", "child_id": "str",
    "parent_code": "str", "child_code": "str", "child_status": "str", "operator": "str?", "operator_class": "str?",
    "parent_us_geomean": "f64?", **_INTERVAL, **{f"resolved_{t}": "bool?" for t in TAUS}, "changed": "bool?",
    "frontier": "bool?", "undo": "bool?", **_SECOND, "self_describing": "bool", "upstream_bin": "i64?",
    "gpu": "str", "split": "str",
}  # fmt: skip

# Column types by a short name; a trailing `?` allows null.
TABLES: Mapping[str, Mapping[str, str]] = {
    "tasks": {
        "task": "str", "source": "str", "family": "str", "statement": "str", "reference_code": "str", "facts": "str",
    },
    "searches": {
        "search_id": "str", "task": "str", "split": "str", "arm": "str", "mutator": "str", "isolation": "str",
        "seeds": "str", "seed": "i64", "budget": "i64", "measured": "i64", "replay_tree": "bool", "ended": "str?",
        "started_at": "str",
    },
    "kernels": {
        "kernel_id": "str", "task": "str", "language": "str", "code": "str", "code_view": "str",
        "structure_hash": "str", "self_describing": "bool", "status": "str", "error": "str?", **_INTERVAL, **_SECOND,
        "time_us_geomean": "f64?", "reference_us_geomean": "f64?", "compile_s": "f64?", "check_s": "f64?",
        "timing_s": "f64?", "timing_method": "str?", "isolation": "str", "n_processes": "i64", "registers": "i64?",
        "spills": "i64?", "shared_bytes": "i64?", "cubin_hash": "str?", **_ENVIRONMENT, "measured_at": "str",
        "split": "str",
    },
    "nodes": {
        "node_id": "str", "kernel_id": "str", "task": "str", "search_id": "str", "parent_node_id": "str?",
        "seed_id": "str", "step": "i64", "origin": "str", "operator": "str?", "operator_class": "str?", "split": "str",
    },
    "sessions": {
        "session_id": "str", "role": "str", "isolation": "str", "sandbox": "str", "timing_method": "str",
        **_ENVIRONMENT, "sm_clock_mhz": "i64?", "memory_clock_mhz": "i64?", "temperature_c": "i64?",
        "started_at": "str",
    },
    "measurements": {
        "session_id": "str", "process": "i64", "kernel_id": "str", "case_id": "str", "side": "str",
        "repetition": "i64", "order": "i64", "time_ns": "f64",
    },
    "pairs": _PAIR,
    "same_program": _PAIR,
    "eval": {
        "pair_id": "str", "task": "str", "search_id": "str", "seed_id": "str", "anchor_kind": "str",
        "anchor_id": "str?", "candidate_id": "str", "anchor_code": "str", "candidate_code": "str",
        "anchor_us_geomean": "f64?", **_INTERVAL, "first_speedup": "f64?", "first_bin": "i64?", "weight": "f64",
        "operator_class": "str?", "self_describing": "bool", "upstream_bin": "i64?", "gpu": "str", "split": "str",
    },
    "events": {"search_id": "str", "index": "i64", "kind": "str", "payload": "str"},
}  # fmt: skip

KEYS: Mapping[str, tuple[str, ...]] = {
    "tasks": ("task",),
    "searches": ("search_id",),
    "kernels": ("kernel_id",),
    "nodes": ("node_id",),
    "sessions": ("session_id",),
    "measurements": ("session_id", "process", "kernel_id", "case_id", "side", "repetition"),
    "pairs": ("pair_id",),
    "same_program": ("pair_id",),
    "eval": ("pair_id",),
    "events": ("search_id", "index"),
}
PERFORMANCE_COLUMNS = ("speedup", "speedup_low", "speedup_high", "bin")
STATUS_COLUMN = {"kernels": "status", "pairs": "child_status", "same_program": "child_status"}
_ONLY_OK = (  # what a row may carry only if its status is `ok`
    *PERFORMANCE_COLUMNS, *_SECOND, "time_us_geomean", "reference_us_geomean", *(f"resolved_{t}" for t in TAUS),
    "changed", "frontier",
)  # fmt: skip
_ENUMS: Mapping[str, tuple[str, ...]] = {
    "status": STATUSES,
    "child_status": STATUSES,
    "language": LANGUAGES,
    "origin": ORIGINS,
    "operator_class": OPERATOR_CLASSES,
    "side": ("candidate", "reference"),
    "split": ("train", "validation", "test", "test_unseen_task"),
    "role": ("primary", "second"),
    "isolation": ("strict", "shared", "unknown"),
    "anchor_kind": ANCHOR_KINDS,
}


class RecordError(ValueError):
    """A table breaks its schema; the message names the table, the row and the field."""


def schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a table, with the schema version in its metadata. Raises KeyError."""
    import pyarrow as pa

    types = {"str": pa.string(), "f64": pa.float64(), "i64": pa.int64(), "bool": pa.bool_()}
    fields = [
        pa.field(name, types[kind.rstrip("?")], nullable=kind.endswith("?")) for name, kind in TABLES[table].items()
    ]
    return pa.schema(fields, metadata={"schema_version": str(SCHEMA_VERSION), "table": table})


def _fail(where: str, row: int, field: str, found: Any, expected: str) -> None:
    raise RecordError(f"{where}, row {row}, field '{field}': found {found!r}, expected {expected}")


def _first(mask: pa.Array) -> int | None:
    import pyarrow.compute as pc

    position: int = pc.index(pc.fill_null(mask, False), True).as_py()
    return None if position < 0 else position


def validate(name: str, data: pa.Table, where: str | None = None) -> None:
    """Raise RecordError unless the table satisfies its schema.

    Checked: columns and types, nulls, enumerations, unique keys, positive finite performance numbers, and that a row
    whose status is not `ok` carries none.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    where = where or f"table {name}"
    want = schema(name)
    for column in want.names:
        if column not in data.column_names:
            raise RecordError(f"{where}: column '{column}' is missing; expected columns {', '.join(want.names)}")
    for column in data.column_names:
        if column not in want.names:
            raise RecordError(f"{where}: unknown column '{column}'; expected columns {', '.join(want.names)}")
    for field in want:
        column = data.column(field.name)
        if column.type != field.type:
            raise RecordError(f"{where}: field '{field.name}' has type {column.type}, expected {field.type}")
        if not field.nullable and column.null_count:
            _fail(where, _first(pc.is_null(column)) or 0, field.name, None, f"a value of type {field.type}")
        if field.name in _ENUMS:
            allowed = _ENUMS[field.name]
            bad = _first(pc.and_(pc.is_valid(column), pc.invert(pc.is_in(column, value_set=pa.array(allowed)))))
            if bad is not None:
                _fail(where, bad, field.name, column[bad].as_py(), "one of " + ", ".join(allowed))
        if field.type == pa.float64():
            bad = _first(pc.invert(pc.and_(pc.is_finite(column), pc.greater(column, 0.0))))
            if bad is not None and not field.name.endswith("_s"):
                _fail(where, bad, field.name, column[bad].as_py(), "a finite, positive number or null")
    keys = data.select(KEYS[name])
    if keys.num_rows and keys.group_by(list(KEYS[name])).aggregate([]).num_rows < keys.num_rows:
        seen: dict[tuple[Any, ...], int] = {}
        for row, key in enumerate(zip(*(keys.column(k).to_pylist() for k in KEYS[name]), strict=True)):
            if key in seen:
                found = key if len(key) > 1 else key[0]
                _fail(where, row, ", ".join(KEYS[name]), found, f"a value not used before (row {seen[key]} has it)")
            seen[key] = row
    if name in STATUS_COLUMN:
        _validate_failed(name, data, where)
    if "bin" in data.column_names:
        _validate_bins(data, where)


def _validate_failed(name: str, data: pa.Table, where: str) -> None:
    import pyarrow.compute as pc

    status = data.column(STATUS_COLUMN[name])
    failed = pc.not_equal(status, "ok")
    for column in (c for c in _ONLY_OK if c in data.column_names):
        bad = _first(pc.and_(failed, pc.is_valid(data.column(column))))
        if bad is not None:
            expected = f"null, because {STATUS_COLUMN[name]} is '{status[bad].as_py()}'"
            _fail(where, bad, column, data.column(column)[bad].as_py(), expected)


def _validate_bins(data: pa.Table, where: str) -> None:
    import numpy as np

    from benchmark.bins import bin_of

    speedup = data.column("speedup").to_numpy()
    present = ~np.isnan(speedup)
    expected = np.full(data.num_rows, np.nan)
    expected[present] = bin_of(speedup[present])
    found = data.column("bin").cast("double").to_numpy()
    wrong = ~((found == expected) | (np.isnan(found) & np.isnan(expected)))
    if wrong.any():
        row = int(wrong.argmax())
        _fail(where, row, "bin", data.column("bin")[row].as_py(), "the bin of the row's speedup")
