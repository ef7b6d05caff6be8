"""The card of the shipped dataset is what loaders and the Hub read: its configurations load, with all their columns."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from benchmark.card import root_card
from benchmark.data_access import DEFAULT_DATASET, load_manifest, load_table
from benchmark.package import package, write_documents
from benchmark.parquet import write_table
from benchmark.records import TABLES, schema


@pytest.fixture(scope="module")
def folder(root: Path) -> Path:
    """The shipped dataset."""
    return root / "benchmark" / "data" / DEFAULT_DATASET


@pytest.fixture(scope="module")
def card(folder: Path) -> tuple[dict[str, Any], str]:
    """The YAML header and the text."""
    _, header, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(header), text


def present() -> list[str]:
    """The tables that the shipped dataset has."""
    return [table for table in TABLES if any(file.startswith(f"{table}/") for file in load_manifest()["files"])]


def test_each_table_is_one_configuration_and_all_of_its_files_are_in_it(
    card: tuple[dict[str, Any], str], folder: Path
) -> None:
    configurations = {config["config_name"]: config["data_files"] for config in card[0]["configs"]}
    assert set(configurations) == set(present())
    named = [entry["path"] for files in configurations.values() for entry in files]
    assert sorted(named) == sorted(load_manifest()["files"]) and all((folder / path).is_file() for path in named)


def test_features_and_sizes_are_those_of_the_files(card: tuple[dict[str, Any], str]) -> None:
    types = {"string": "string", "float64": "double", "int64": "int64", "bool": "bool"}
    files = load_manifest()["files"]
    for info in card[0]["dataset_info"]:
        table = info["config_name"]
        assert {f["name"]: types[f["dtype"]] for f in info["features"]} == {f.name: str(f.type) for f in schema(table)}
        own = [entry for file, entry in files.items() if file.startswith(f"{table}/")]
        assert info["download_size"] == sum(entry["bytes"] for entry in own)
        assert sum(split["num_examples"] for split in info["splits"]) == sum(entry["rows"] for entry in own)


@pytest.mark.parametrize("table", TABLES)
def test_each_column_is_described(card: tuple[dict[str, Any], str], table: str) -> None:
    section = "pairs" if table == "same_program" else table  # which says that it has the columns of pairs
    (described,) = re.findall(rf"^- \*\*{section}\*\*(.*?)(?=^- |^\n)", card[1], re.MULTILINE | re.DOTALL)
    words = set(re.findall(r"\w+", described))
    assert not [column for column in TABLES[table] if column not in words]


def test_the_card_of_the_repository_is_made_from_it(folder: Path, root: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert (root / "DATASET_CARD.md").read_text(encoding="utf-8") == root_card(text, DEFAULT_DATASET)


@pytest.mark.slow
def test_packaging_the_shipped_logs_again_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    package(DEFAULT_DATASET, folder / "raw", tmp_path / "again")
    files = [
        p.relative_to(folder) for p in folder.rglob("*") if p.is_file() and "raw" not in p.relative_to(folder).parts
    ]
    assert len(files) > 10
    for path in files:
        assert (folder / path).read_bytes() == (tmp_path / "again" / path).read_bytes(), path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shipped", "synthetic"])
def test_croissant_is_accepted_and_its_records_load(name: str, folder: Path, synthetic_folder: Path) -> None:
    import mlcroissant

    path = folder if name == "shipped" else synthetic_folder
    dataset = mlcroissant.Dataset(jsonld=str(path / "croissant.json"))
    assert not dataset.metadata.ctx.issues.errors and not dataset.metadata.ctx.issues.warnings
    record = next(iter(dataset.records("kernels_test")))
    assert set(record) == {f"kernels_test/{column}" for column in TABLES["kernels"]}


@pytest.mark.slow
def test_the_hub_library_loads_each_configuration(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import get_dataset_config_names, load_dataset

    copy = tmp_path / DEFAULT_DATASET
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("raw"))
    cache = str(tmp_path / "cache")
    assert set(get_dataset_config_names(str(copy))) == set(present())
    with pytest.raises(ValueError, match="not found"):
        load_dataset(str(copy), "kernel", cache_dir=cache)
    for table in present():
        loaded = load_dataset(str(copy), table, cache_dir=cache)
        assert {name: len(split) for name, split in loaded.items()} == {
            name: load_table(table, None if name == "complete" else name).num_rows for name in loaded
        }
        assert all(split.column_names == list(TABLES[table]) for split in loaded.values())
    some = load_dataset(str(copy), "kernels", split="test", columns=["kernel_id", "speedup"], cache_dir=cache)
    assert some.column_names == ["kernel_id", "speedup"] and len(some) == load_table("kernels", "test").num_rows
    assert some["kernel_id"][:] == load_table("kernels", "test").column("kernel_id").to_pylist()
    stream = load_dataset(str(copy), "pairs", split="test", streaming=True, columns=["pair_id", "bin"])
    assert [row["pair_id"] for row in stream] == load_table("pairs", "test").column("pair_id").to_pylist()
    assert set(next(iter(load_dataset(str(copy), "events", split="complete", streaming=True)))) == set(TABLES["events"])


@pytest.mark.slow
def test_the_hub_library_sees_a_file_that_changed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    copy = tmp_path / DEFAULT_DATASET
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("raw"))
    before = load_dataset(str(copy), "tasks", split="complete", cache_dir=str(tmp_path / "cache"))
    path = copy / "tasks" / "all-00000-of-00001.parquet"
    stamp = path.stat()
    changed = load_table("tasks").to_pandas().assign(statement="changed")
    write_table("tasks", pa.Table.from_pandas(changed, schema("tasks"), preserve_index=False), path)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"][f"tasks/{path.name}"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    write_documents(copy, manifest)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    after = load_dataset(str(copy), "tasks", split="complete", cache_dir=str(tmp_path / "cache"))
    assert "changed" not in before["statement"][:] and set(after["statement"][:]) == {"changed"}
