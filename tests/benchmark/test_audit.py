from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmark.audit import audit
from benchmark.package import package
from benchmark.probes import BASELINES, LEAKS, at_chance, probe_aurocs
from tests.factory import Recipe, SearchWriter, make_search


@pytest.fixture(scope="module")
def found(synthetic_folder: Path) -> dict[str, Any]:
    return audit(synthetic_folder)


def test_a_packaged_dataset_has_no_near_duplicates_across_splits(found: dict[str, Any]) -> None:
    assert [row["split"] for row in found["near_duplicates"]] == ["train", "validation"]
    for row in found["near_duplicates"]:
        assert row["same_structure"] == row["near_duplicates"] == 0 < row["highest_jaccard"] < 0.8


def test_text_that_tells_stands_in_sources_and_not_in_views(found: dict[str, Any]) -> None:
    text = found["telling_text"]
    # Every synthetic source says what it targets; no view does.
    assert text["in_code"] == text["rows"] > 0
    assert text["in_view"] == text["telling_names_in_view"] == 0 and text["examples"] == []


def test_every_probe_is_reported_with_an_interval(found: dict[str, Any]) -> None:
    assert [row["probe"] for row in found["probes"]] == [*LEAKS, *BASELINES]
    for row in found["probes"]:
        assert row["low"] <= row["auroc"] <= row["high"] and row["must_be_chance"] is (row["probe"] in LEAKS)


def test_noise_and_balance_are_those_of_the_rows(found: dict[str, Any], synthetic_folder: Path) -> None:
    from benchmark.parquet import read_table

    noise = found["label_noise"]
    assert 0 < noise["kernels_median_log2_sd"] < 0.05 and noise["same_program"]["pairs"] == 12
    assert 0 < noise["same_program"]["log2_sd"] < 0.05 and noise["second"]["kernels"] == 0
    rows = read_table(synthetic_folder / "kernels" / "test-00000-of-00001.parquet", "kernels").to_pylist()
    for entry in found["balance"]:
        if entry["split"] == "test":
            mine = [row for row in rows if row["task"] == entry["task"]]
            assert entry["rows"] == len(mine) == sum(entry["status"].values())
            assert entry["bins"] == [sum(row["bin"] == b for row in mine) for b in range(1, 9)]


def test_shares_are_held_against_their_caps(found: dict[str, Any]) -> None:
    by = {(row["of"], row["by"]): row for row in found["composition"]}
    constants = by["pairs", "operator_class"]
    assert constants["largest"] == "constants" and constants["share"] > 0.4 and constants["within"] is False
    assert by["pairs", "task"]["cap"] == 0.15


def test_repeated_measurements_are_compared(tmp_path: Path) -> None:
    make_search("row_total", "test", kernels=8, again=True).save(tmp_path / "raw")
    package("again", tmp_path / "raw", tmp_path / "out")
    second = audit(tmp_path / "out")["label_noise"]["second"]
    assert second["kernels"] > 5 and 0 < second["log2_rms_difference"] < 0.1 and 0 < second["rms_z"] < 4
    assert 0.5 < second["same_bin"] <= 1


def test_a_leak_that_slips_in_is_reported(synthetic_folder: Path, tmp_path: Path) -> None:
    """A kernel of test put into train behind the back of packaging."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    copy = tmp_path / "leaky"
    shutil.copytree(synthetic_folder, copy, ignore=shutil.ignore_patterns("raw"))
    train, test = (copy / "kernels" / f"{split}-00000-of-00001.parquet" for split in ("train", "test"))
    leaked = pq.read_table(test).slice(0, 2)
    names = leaked.column_names
    leaked = leaked.set_column(names.index("split"), "split", pa.array(["train"] * 2))
    pq.write_table(pa.concat_tables([pq.read_table(train), leaked.cast(pq.read_schema(train))]), train)
    row = audit(copy)["near_duplicates"][0]
    assert row["same_structure"] == 2 and row["highest_jaccard"] == 1.0


def pairs(n: int, tasks: int = 6) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    return [
        {"pair_id": f"p-{i}", "task": f"t{i % tasks}", "search_id": f"t{i % tasks}/{i // tasks % 4}",
         "speedup": float(2 ** rng.normal(0, 0.7))}
        for i in range(n)
    ]  # fmt: skip


def test_a_probe_that_knows_is_far_from_chance_and_one_that_does_not_is_near() -> None:
    rows = pairs(3000)
    rng = np.random.default_rng(4)
    speedup = np.array([row["speedup"] for row in rows])
    found = probe_aurocs(rows, {"knows": speedup, "guesses": rng.random(len(rows)), "constant": np.ones(len(rows))})
    assert found["knows"]["auroc"] == 1.0 and at_chance(found["knows"]) is False
    assert found["constant"]["auroc"] == 0.5 and at_chance(found["constant"]) is True
    assert abs(found["guesses"]["auroc"] - 0.5) < 0.05 and found["guesses"]["tasks"] == 6


def test_without_discoveries_a_probe_has_no_value(tmp_path: Path) -> None:
    writer = SearchWriter("row_total", "test", 0, 0)
    writer.start(["triton_paired"], 2)
    seed = writer.propose(Recipe("paired"), None, 0)
    writer.measure(seed)
    writer.add("step_started", step=1, parents=[seed])
    writer.measure(writer.propose(Recipe("paired", block=512), seed, 1, "scale_block", "constants"))
    writer.save(tmp_path / "raw")
    package("small", tmp_path / "raw", tmp_path / "out")
    for row in audit(tmp_path / "out")["probes"]:
        assert row["auroc"] is row["low"] is row["at_chance"] is None and row["tasks"] == 0
