"""The dataset card is what the Hub reads: its configurations load, and it describes every column."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmark.data_access import DEFAULT_DATASET, load_manifest, load_table
from benchmark.records import TABLES


@pytest.fixture(scope="module")
def card(root: Path) -> tuple[dict[str, Any], str]:
    """The YAML header and the text."""
    _, header, text = (root / "DATASET_CARD.md").read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(header), text


def test_each_table_is_one_configuration_and_all_of_its_files_are_in_it(
    card: tuple[dict[str, Any], str], root: Path
) -> None:
    configurations = {config["config_name"]: config["data_files"] for config in card[0]["configs"]}
    assert set(configurations) == set(TABLES)
    folder = root / "benchmark" / "data" / DEFAULT_DATASET
    matched = [path for files in configurations.values() for entry in files for path in folder.glob(entry["path"])]
    named = {str(path.relative_to(folder)) for path in matched}
    assert named == {file for file in load_manifest()["files"] if file.endswith(".parquet")}
    assert len(named) == len(matched)


@pytest.mark.parametrize("table", TABLES)
def test_each_column_is_described(card: tuple[dict[str, Any], str], table: str) -> None:
    (described,) = re.findall(rf"^- \*\*{table}\*\*(.*?)(?=^- |^\n)", card[1], re.MULTILINE | re.DOTALL)
    words = set(re.findall(r"\w+", described))
    assert not [column for column in TABLES[table] if column not in words]


@pytest.mark.slow
def test_the_hub_library_loads_each_configuration(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import get_dataset_config_names, load_dataset

    copy = tmp_path / DEFAULT_DATASET
    shutil.copytree(root / "benchmark" / "data" / DEFAULT_DATASET, copy, ignore=shutil.ignore_patterns("raw"))
    shutil.copyfile(root / "DATASET_CARD.md", copy / "README.md")
    assert set(get_dataset_config_names(str(copy))) == set(TABLES)
    with pytest.raises(ValueError, match="not found"):
        load_dataset(str(copy), "kernel", cache_dir=str(tmp_path / "cache"))
    for table in TABLES:
        loaded = load_dataset(str(copy), table, cache_dir=str(tmp_path / "cache"))
        assert {name: len(split) for name, split in loaded.items()} == {
            name: load_table(table, None if name == "complete" else name).num_rows for name in loaded
        }
        assert all(split.column_names == list(TABLES[table]) for split in loaded.values())
