from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from statistics import median

import pytest

from benchmark import data_access
from benchmark.code_view import code_view
from benchmark.data_access import (
    DataError,
    available_splits,
    available_tracks,
    dataset_names,
    load_eval,
    load_kernels,
    load_labels,
    load_measurements,
    load_pairs,
    load_queries,
    load_table,
)
from benchmark.identity import pool_query_id
from benchmark.records import TABLES, RecordError

NAME = "synthetic"
ALL_SPLITS = ("train", "validation", "test", "test_unseen_task")

pytestmark = pytest.mark.usefixtures("synthetic_dataset")


def test_what_there_is() -> None:
    assert dataset_names() == (NAME,)
    assert available_splits(NAME) == ALL_SPLITS
    assert available_tracks(NAME) == ("pairs", "pool")


@pytest.mark.parametrize("name", [name for name in TABLES if name != "eval"])
def test_every_table_loads_with_its_columns(name: str) -> None:
    table = load_table(name, dataset=NAME)
    assert table.num_rows and table.column_names == list(TABLES[name])


def test_a_table_that_the_dataset_lacks_is_named() -> None:
    with pytest.raises(DataError, match="dataset 'synthetic' has no table 'eval'"):
        load_eval(dataset=NAME)


def test_tables_come_as_frames_too() -> None:
    frame = load_pairs("test", NAME, ["pair_id", "speedup"], pandas=True)
    assert list(frame.columns) == ["pair_id", "speedup"] and len(frame) == load_pairs("test", NAME).num_rows
    assert len(load_measurements("test", NAME, pandas=True)) == load_measurements("test", NAME).num_rows


def test_splits_add_up_and_columns_are_projected() -> None:
    parts = [load_kernels(split, NAME, ["kernel_id", "split"]) for split in ALL_SPLITS]
    assert [set(part.column("split").to_pylist()) for part in parts] == [{split} for split in ALL_SPLITS]
    assert sum(part.num_rows for part in parts) == load_kernels(dataset=NAME).num_rows
    assert parts[0].column_names == ["kernel_id", "split"]


def test_measurements_of_a_split_are_those_of_its_kernels() -> None:
    kernels = set(load_kernels("test", NAME, ["kernel_id"]).column("kernel_id").to_pylist())
    found = load_measurements("test", NAME, ["kernel_id", "time_ns"])
    assert found.column_names == ["kernel_id", "time_ns"] and found.num_rows
    assert set(found.column("kernel_id").to_pylist()) <= kernels
    assert load_measurements("train", NAME, ["time_ns"]).column_names == ["time_ns"]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: load_kernels(dataset="synthetik"), "did you mean 'synthetic'"),
        (lambda: load_kernels(dataset="../x"), "unknown dataset '../x'"),
        (lambda: load_table("kernel", dataset=NAME), "did you mean 'kernels'"),
        (lambda: load_kernels("tests", NAME), "expected one of: train, validation, test, test_unseen_task"),
        (lambda: load_table("sessions", "test", NAME), "is not split"),
        (lambda: load_queries("pair", "test", NAME), "expected one of: pairs, pool"),
        (lambda: load_queries("eval", "test", NAME), "has no queries for it; expected one of: pairs, pool"),
        (lambda: load_labels("pool", "dev", NAME), "expected one of: train, validation"),
    ],
)
def test_a_wrong_name_lists_the_right_ones(call: object, expected: str) -> None:
    with pytest.raises(DataError) as caught:
        call()  # type: ignore[operator]
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_an_unknown_column_lists_the_right_ones() -> None:
    with pytest.raises(RecordError, match="table kernels has no column 'speed'; its columns are kernel_id"):
        load_kernels("test", NAME, ["speed"])


@pytest.mark.parametrize("track", ["pairs", "pool"])
@pytest.mark.parametrize("split", ALL_SPLITS)
def test_queries_and_labels_are_in_one_order_by_hash(track: str, split: str) -> None:
    queries, labels = load_queries(track, split, NAME), load_labels(track, split, NAME)
    ids = [query.query_id for query in queries]
    assert ids == sorted(set(ids)) == labels.column("query_id").to_pylist()
    assert [query.task for query in queries] == labels.column("task").to_pylist()
    assert {query.track for query in queries} == {track}


def test_a_query_shows_views_and_facts_but_no_label() -> None:
    for query in load_queries("pairs", "test", NAME) + load_queries("pool", "test", NAME):
        assert "targeting" not in query.anchor_code + query.candidate_code
        assert query.anchor_time_us is not None and query.anchor_time_us > 0
        assert query.hardware == "Synthetic GPU" and query.statement == f"Compute {query.task}."
        assert [case["case_id"] for case in query.facts["cases"]] == ["small", "large"]


def test_pairs_queries_and_labels_say_what_the_table_says() -> None:
    rows = {row["pair_id"]: row for row in load_pairs("test", NAME).to_pylist()}
    labels = load_labels("pairs", "test", NAME).to_pylist()
    assert len(labels) == len(rows)
    for query, label in zip(load_queries("pairs", "test", NAME), labels, strict=True):
        row = rows[query.query_id]
        assert (query.anchor_code, query.candidate_code) == (row["parent_code"], row["child_code"])
        assert (query.anchor_kind, query.anchor_time_us) == ("parent", row["parent_us_geomean"])
        assert (label["anchor_id"], label["candidate_id"]) == (row["parent_id"], row["child_id"])
        for column in ("speedup", "speedup_low", "speedup_high", "bin", "search_id", "operator_class"):
            assert label[column] == row[column]
        assert label["status"] == row["child_status"] and label["seed_id"].startswith("triton_")


def test_the_pool_is_every_kernel_that_is_no_seed() -> None:
    kernels = {row["kernel_id"]: row for row in load_kernels("test", NAME).to_pylist()}
    nodes = load_table("nodes", "test", NAME).to_pylist()
    seeds = {node["kernel_id"] for node in nodes if node["origin"] == "seed"}
    labels = load_labels("pool", "test", NAME).to_pylist()
    assert {label["candidate_id"] for label in labels} == set(kernels) - seeds
    assert any(label["status"] != "ok" for label in labels)
    queries = {query.query_id: query for query in load_queries("pool", "test", NAME)}
    reference = {row["task"]: row["reference_code"] for row in load_table("tasks", dataset=NAME).to_pylist()}
    for label in labels:
        kernel = kernels[label["candidate_id"]]
        query = queries[pool_query_id(kernel["task"], "test", kernel["kernel_id"])]
        assert query.candidate_code == kernel["code_view"] and query.anchor_code == code_view(reference[query.task])
        times = [k["reference_us_geomean"] for k in kernels.values() if k["task"] == query.task]
        assert query.anchor_time_us == median(t for t in times if t is not None)
        assert label["anchor_id"] is None and label["speedup"] == kernel["speedup"]
        places = [node for node in nodes if node["kernel_id"] == kernel["kernel_id"]]
        assert label["search_id"] == min(node["search_id"] for node in places)


def test_the_spread_of_a_label_is_a_quarter_of_its_interval() -> None:
    for row in load_labels("pairs", "test", NAME).to_pylist():
        if row["status"] != "ok":
            assert row["speedup"] is row["bin"] is row["log2_sd"] is None
        else:
            width = math.log2(row["speedup_high"]) - math.log2(row["speedup_low"])
            assert row["log2_sd"] == pytest.approx(width / (2 * 1.96), rel=1e-4)


@pytest.fixture
def broken(synthetic_dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(synthetic_dataset, tmp_path / NAME)
    monkeypatch.setenv("KERNELCAST_DATA", str(tmp_path))
    return tmp_path / NAME


def test_files_that_do_not_fit_the_manifest(broken: Path) -> None:
    kernels = broken / "kernels"
    shutil.copyfile(kernels / "train-00000-of-00001.parquet", kernels / "test-00000-of-00001.parquet")
    manifest = json.loads((broken / "manifest.json").read_text())
    manifest["files"]["kernels/test-00000-of-00001.parquet"]["rows"] += 1
    (broken / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(RecordError, match="the manifest says"):
        load_kernels("test", NAME)
    (kernels / "test-00000-of-00001.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"test-00000-of-00001.parquet: no such file"):
        load_kernels("test", NAME)


def test_a_downloaded_dataset_is_found_and_completes_one_without_samples(
    broken: Path, synthetic_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = load_measurements(dataset=NAME).num_rows
    shutil.rmtree(broken / "measurements")
    with pytest.raises(FileNotFoundError, match="`kernelcast data download` fetches it"):
        load_measurements(dataset=NAME)
    cache = tmp_path / "cache" / "data"
    shutil.copytree(synthetic_folder, cache / NAME)
    monkeypatch.setenv("KERNELCAST_CACHE", str(tmp_path / "cache"))
    assert load_measurements(dataset=NAME).num_rows == samples
    # A download of other rows under the same name completes nothing.
    manifest = json.loads((cache / NAME / "manifest.json").read_text())
    manifest["files"]["measurements/all-00000-of-00001.parquet"]["sha256"] = "0"
    (cache / NAME / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FileNotFoundError):
        load_measurements(dataset=NAME)
    shutil.rmtree(broken)
    assert dataset_names() == (NAME,) and data_access.dataset_path(NAME) == cache / NAME


def test_a_file_that_changed_is_read_again(broken: Path) -> None:
    before = load_kernels("train", NAME).num_rows
    path = broken / "kernels" / "train-00000-of-00001.parquet"
    manifest = json.loads((broken / "manifest.json").read_text())
    from benchmark.parquet import write_table

    write_table("kernels", load_kernels("train", NAME).slice(1), path)
    manifest["files"]["kernels/train-00000-of-00001.parquet"]["rows"] -= 1
    (broken / "manifest.json").write_text(json.dumps(manifest))
    assert load_kernels("train", NAME).num_rows == before - 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": {"a": {}}}', '{"files": []}'])
def test_a_broken_manifest_gives_one_line(broken: Path, text: str) -> None:
    (broken / "manifest.json").write_text(text)
    with pytest.raises(RecordError, match="package the dataset again"):
        load_kernels("test", NAME)


def test_without_an_override_the_checkout_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERNELCAST_DATA")
    assert data_access.data_root() == Path(data_access.__file__).parent / "data"
