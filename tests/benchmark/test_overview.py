from __future__ import annotations

from pathlib import Path

import pytest

from benchmark.data_access import DataError, load_kernels, load_pairs
from benchmark.overview import overview

pytestmark = pytest.mark.usefixtures("synthetic_dataset")


def test_counts_are_those_of_the_tables() -> None:
    found = overview("synthetic")
    rows = {(row["table"], row["split"]): row for row in found["rows"]}
    assert found["gpus"] == ["Synthetic GPU"] and found["searches"] == 12
    kernels, pairs = load_kernels("test", "synthetic").to_pylist(), load_pairs("test", "synthetic").to_pylist()
    row = rows["kernels", "test"]
    assert row["rows"] == len(kernels) and row["tasks"] == 2
    assert row["ok_share"] == sum(k["status"] == "ok" for k in kernels) / len(kernels)
    assert row["bins"] == [sum(k["bin"] == b for k in kernels) for b in range(1, 9)]
    row = rows["pairs", "test"]
    measured = [p for p in pairs if p["speedup"] is not None]
    assert row["discoveries"] == sum(p["bin"] >= 6 for p in measured) > 0
    assert row["unresolved_share"] == sum(not p["resolved_141"] for p in measured) / len(measured)
    assert row["changed_share"] == sum(p["changed"] for p in measured) / len(measured)


def test_sizes_are_those_of_the_files(synthetic_folder: Path) -> None:
    found = overview("synthetic")
    assert found["bytes"] == sum(p.stat().st_size for p in synthetic_folder.rglob("*.parquet"))
    assert not any("ids" in entry for entry in found["dropped"])


def test_an_unknown_dataset_lists_the_known_ones() -> None:
    with pytest.raises(DataError, match="expected one of: synthetic"):
        overview("h200-v9")
