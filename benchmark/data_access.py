"""Find a dataset and load its tables, its queries (what a surrogate sees) and its labels (what it must not see)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmark.locate import (
    CACHE_VARIABLE,
    DEFAULT_DATASET,
    ENVIRONMENT_VARIABLE,
    DataError,
    cache_root,
    data_root,
    dataset_names,
    dataset_path,
    load_manifest,
    table_file,
    unknown,
)
from benchmark.query import SPLITS, TRACKS, Query
from benchmark.records import TABLES, RecordError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [  # the names of `locate` are part of this module's interface
    "CACHE_VARIABLE", "DEFAULT_DATASET", "ENVIRONMENT_VARIABLE", "DataError", "available_splits", "available_tracks",
    "cache_root", "data_root", "dataset_names", "dataset_path", "load_eval", "load_kernels", "load_labels",
    "load_manifest", "load_measurements", "load_pairs", "load_queries", "load_table",
]  # fmt: skip
_Z95 = 1.959963984540054


def available_splits(dataset: str = DEFAULT_DATASET) -> tuple[str, ...]:
    """Return the splits that a dataset has kernels in."""
    return _splits_of("kernels", load_manifest(dataset))


def available_tracks(dataset: str = DEFAULT_DATASET) -> tuple[str, ...]:
    """Return the tracks that can be scored from a dataset's own tables."""
    files = load_manifest(dataset)["files"]
    needs = {"pairs": "pairs/", "eval": "eval/", "pool": "kernels/"}
    return tuple(track for track, folder in needs.items() if any(name.startswith(folder) for name in files))


def _splits_of(table: str, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(s for s in SPLITS if f"{table}/{s}-00000-of-00001.parquet" in manifest["files"])


def load_table(
    name: str, split: str | None = None, dataset: str = DEFAULT_DATASET, columns: Sequence[str] | None = None
) -> pa.Table:
    """Return a record table, of one split or of all, or some of its columns.

    Raises DataError for an unknown dataset, table or split, RecordError for a file that is cut or breaks its schema.
    """
    import pyarrow as pa

    from benchmark.parquet import read_table

    if name not in TABLES:
        raise unknown("table", name, tuple(TABLES))
    manifest = load_manifest(dataset)
    splits = _splits_of(name, manifest)
    if split is not None and split not in splits:
        if not splits and split in SPLITS:
            raise DataError(f"table '{name}' of dataset '{dataset}' is not split; load it without a split")
        raise unknown("split", split, splits, f" of table '{name}' in dataset '{dataset}'")
    parts = []
    for part in [split] if split else splits or ["all"]:
        relative = f"{name}/{part}-00000-of-00001.parquet"
        path = table_file(dataset, relative)
        if relative not in manifest["files"]:
            raise DataError(f"dataset '{dataset}' has no table '{name}'")
        if not path.is_file():
            raise FileNotFoundError(
                f"{path}: no such file (the wheel carries no samples and events); `kernelcast data download` fetches "
                f"it, or set {ENVIRONMENT_VARIABLE} to the folder that holds '{dataset}'"
            )
        table = read_table(path, name, columns)
        expected = manifest["files"][relative]["rows"]
        if table.num_rows != expected:
            raise RecordError(f"{path}: holds {table.num_rows} rows, the manifest says {expected}; restore the file")
        parts.append(table)
    return pa.concat_tables(parts)


def _frame(table: pa.Table, pandas: bool) -> Any:
    return table.to_pandas() if pandas else table


def load_kernels(
    split: str | None = None,
    dataset: str = DEFAULT_DATASET,
    columns: Sequence[str] | None = None,
    pandas: bool = False,
) -> Any:
    """Return the kernels, one row per distinct source file, as an Arrow table or as a pandas frame."""
    return _frame(load_table("kernels", split, dataset, columns), pandas)


def load_pairs(
    split: str | None = None,
    dataset: str = DEFAULT_DATASET,
    columns: Sequence[str] | None = None,
    pandas: bool = False,
) -> Any:
    """Return the measured parent-child pairs, failed children included, as an Arrow table or as a pandas frame."""
    return _frame(load_table("pairs", split, dataset, columns), pandas)


def load_eval(
    split: str | None = None,
    dataset: str = DEFAULT_DATASET,
    columns: Sequence[str] | None = None,
    pandas: bool = False,
) -> Any:
    """Return the balanced evaluation pairs with their sampling weights, as an Arrow table or as a pandas frame."""
    return _frame(load_table("eval", split, dataset, columns), pandas)


def load_measurements(
    split: str | None = None,
    dataset: str = DEFAULT_DATASET,
    columns: Sequence[str] | None = None,
    pandas: bool = False,
) -> Any:
    """Return the raw samples (nanoseconds), with a split those of its kernels, as Arrow or pandas."""
    if split is None:
        return _frame(load_table("measurements", None, dataset, columns), pandas)
    kernels = load_kernels(split, dataset, ["kernel_id"]).column("kernel_id")
    wanted = list(columns) if columns else list(TABLES["measurements"])
    table = load_table("measurements", None, dataset, list(dict.fromkeys([*wanted, "kernel_id"])))
    import pyarrow.compute as pc

    chosen = pc.is_in(table.column("kernel_id"), value_set=kernels.combine_chunks())
    return _frame(table.filter(chosen).select(wanted), pandas)


def _check_track(track: str, split: str, dataset: str) -> None:
    tracks = available_tracks(dataset)
    if track not in tracks:
        reason = "" if track not in TRACKS else f": dataset '{dataset}' has no queries for it"
        raise unknown("track", track, tracks, reason)
    splits = _splits_of("kernels" if track == "pool" else track, load_manifest(dataset))
    if split not in splits:
        raise unknown("split", split, splits, f" of track '{track}' in dataset '{dataset}'")


def load_queries(track: str, split: str, dataset: str = DEFAULT_DATASET) -> list[Query]:
    """Return the questions of a track and split, ordered by their hashed id; they carry no label.

    `pairs` asks about every measured child against its parent, `eval` about a candidate against the reference or its
    parent, `pool` about every distinct kernel that is not a seed against the task's reference. Raises DataError, with
    the names that exist.
    """
    _check_track(track, split, dataset)
    tasks = {row["task"]: row for row in load_table("tasks", None, dataset).to_pylist()}
    facts = {name: json.loads(row["facts"]) for name, row in tasks.items()}
    if track == "pool":
        from benchmark.code_view import code_view

        pool = _pool(split, dataset, ["code_view", "gpu"])
        anchors = {name: code_view(row["reference_code"]) for name, row in tasks.items()}
        rows: Iterable[tuple[Any, ...]] = (
            (r["query_id"], r["task"], "reference", anchors[r["task"]], r["code_view"], r["anchor_us"], r["gpu"])
            for r in pool
        )
    elif track == "pairs":
        columns = ["pair_id", "task", "parent_code", "child_code", "parent_us_geomean", "gpu"]
        table = load_pairs(split, dataset, columns)
        found = zip(*(table.column(c).to_pylist() for c in columns), strict=True)
        rows = ((key, task, "parent", *rest) for key, task, *rest in found)
    else:
        columns = ["pair_id", "task", "anchor_kind", "anchor_code", "candidate_code", "anchor_us_geomean", "gpu"]
        table = load_eval(split, dataset, columns)
        rows = zip(*(table.column(c).to_pylist() for c in columns), strict=True)
    queries = [
        Query(query_id, track, task, tasks[task]["statement"], kind, anchor, candidate, time_us, gpu, facts[task])
        for query_id, task, kind, anchor, candidate, time_us, gpu in rows
    ]
    return sorted(queries, key=lambda query: query.query_id)


def _pool(split: str, dataset: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The pool rows of a split: kernels without a seed node and, unless they failed, with a time."""
    from statistics import median

    from benchmark.identity import pool_query_id

    nodes = load_table("nodes", split, dataset, ["kernel_id", "origin"])
    origins = zip(nodes.column("kernel_id").to_pylist(), nodes.column("origin").to_pylist(), strict=True)
    seeds = {kernel for kernel, origin in origins if origin == "seed"}
    kernels = load_kernels(
        split, dataset, ["kernel_id", "task", "status", "speedup", "reference_us_geomean", *columns]
    ).to_pylist()
    reference: dict[str, list[float]] = {}
    for row in kernels:
        if row["reference_us_geomean"] is not None:
            reference.setdefault(row["task"], []).append(row["reference_us_geomean"])
    anchor_us = {task: median(times) for task, times in reference.items()}
    rows = [r for r in kernels if r["kernel_id"] not in seeds and (r["status"] != "ok" or r["speedup"] is not None)]
    for row in rows:
        row["query_id"] = pool_query_id(row["task"], split, row["kernel_id"])
        row["anchor_us"] = anchor_us.get(row["task"])
    return sorted(rows, key=lambda row: str(row["query_id"]))


def load_labels(track: str, split: str, dataset: str = DEFAULT_DATASET) -> pa.Table:
    """Return the labels of a track and split, in the order of its queries.

    Columns: query_id, task, search_id, seed_id, anchor_id (null for the reference), candidate_id, status, speedup with
    its 95% interval, log2_sd (the interval's width in log2 units over 2 x 1.96), bin, second_speedup (from
    second sessions alone, else null; in eval from the first ones, because its labels are the second), operator_class,
    weight (the inverse of an eval row's sampling rate, else 1). A failed candidate has a status and no speedup. Raises
    DataError, with the names that exist.
    """
    import pyarrow as pa

    _check_track(track, split, dataset)
    columns = ["search_id", "kernel_id", "seed_id", "operator_class"]
    table = load_table("nodes", split, dataset, columns)
    nodes = list(zip(*(table.column(c).to_pylist() for c in columns), strict=True))
    interval = ["speedup", "speedup_low", "speedup_high", "bin", "second_speedup"]
    if track == "pairs":
        seed_of = {(search, kernel): seed for search, kernel, seed, _ in reversed(nodes)}
        keep = ["pair_id", "task", "search_id", "parent_id", "child_id", "child_status", *interval, "operator_class"]
        names = {"pair_id": "query_id", "parent_id": "anchor_id", "child_id": "candidate_id", "child_status": "status"}
        found = load_pairs(split, dataset, keep).to_pylist()
        rows = [{names.get(k, k): v for k, v in row.items()} for row in found]
        for row in rows:
            row["seed_id"] = seed_of[row["search_id"], row["candidate_id"]]
    elif track == "eval":
        keep = ["pair_id", "task", "search_id", "seed_id", "anchor_id", "candidate_id", *interval[:4], "operator_class"]
        names = {"pair_id": "query_id", "first_speedup": "second_speedup"}
        found = load_eval(split, dataset, [*keep, "first_speedup", "weight"]).to_pylist()
        rows = [{"status": "ok"} | {names.get(k, k): v for k, v in row.items()} for row in found]
    else:
        first = {kernel: (search, seed, operator_class) for search, kernel, seed, operator_class in reversed(nodes)}
        rows = _pool(split, dataset, interval[1:])
        for row in rows:
            row["anchor_id"], row["candidate_id"] = None, row["kernel_id"]
            row["search_id"], row["seed_id"], row["operator_class"] = first[row["kernel_id"]]
    for row in rows:
        spread = row["speedup_low"] and math.log2(row["speedup_high"] / row["speedup_low"])
        row.setdefault("weight", 1.0)
        row["log2_sd"] = None if spread is None else spread / (2 * _Z95)
    rows.sort(key=lambda row: str(row["query_id"]))
    text, number = pa.string(), pa.float64()
    label_schema = pa.schema(
        {"query_id": text, "task": text, "search_id": text, "seed_id": text, "anchor_id": text, "candidate_id": text,
         "status": text, "speedup": number, "speedup_low": number, "speedup_high": number, "log2_sd": number,
         "bin": pa.int64(), "second_speedup": number, "operator_class": text, "weight": number}
    )  # fmt: skip
    return pa.Table.from_pylist(rows, schema=label_schema)
