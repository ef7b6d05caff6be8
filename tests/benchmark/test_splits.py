from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmark.data_access import DEFAULT_DATASET, load_kernels, load_manifest, load_table
from benchmark.event_log import LogError, read_search
from benchmark.identity import pair_id
from benchmark.integrity import check_dataset
from benchmark.near_duplicate import THRESHOLD, jaccard
from benchmark.package import package
from benchmark.query import TEST_SPLITS
from benchmark.splits import seed_splits, unseen_tasks
from benchmark.structure import structure_hash
from tests.factory import Recipe, SearchWriter, make_search

EXTRA = "    out = torch.empty_like(out) if out is None else out\n    return out\n"


def search(split: str, style: str, number: int = 0, task: str = "row_total") -> SearchWriter:
    writer = SearchWriter(task, split, number, 0)
    writer.start([f"triton_{style}"], 10)
    writer.measure(writer.propose(Recipe(style), None, 0))
    return writer


def near_copy(style: str) -> str:
    source = Recipe(style).source("row_total")
    changed = source.replace("    return out\n", EXTRA)
    assert structure_hash(source) != structure_hash(changed) and jaccard(source, changed) >= THRESHOLD
    return changed


@pytest.mark.parametrize(("lower", "upper"), [("train", "test"), ("train", "validation"), ("validation", "test")])
def test_a_near_duplicate_leaves_the_training_side(tmp_path: Path, lower: str, upper: str) -> None:
    low, high = search(lower, "walking"), search(upper, "chunked")
    copy = low.propose(Recipe("walking"), f"{low.search_id}/0", 1, "rewrite", "host", code=near_copy("chunked"))
    low.measure(copy)
    for writer in (low, high):
        writer.save(tmp_path / "raw")
    manifest = package("near", tmp_path / "raw", tmp_path / "out")
    assert [e for e in manifest["dropped"] if e["table"] == "kernels"] == [
        {"table": "kernels", "reason": f"a near-duplicate stands in {upper}", "rows": 1,
         "ids": [low.events[-1]["kernel_id"]]}
    ]  # fmt: skip
    assert check_dataset(tmp_path / "out") == []


def test_near_copies_of_one_split_stay(tmp_path: Path) -> None:
    writer = search("test", "chunked")
    writer.measure(
        writer.propose(Recipe("chunked"), f"{writer.search_id}/0", 1, "rewrite", "host", near_copy("chunked"))
    )
    writer.save(tmp_path / "raw")
    manifest = package("one", tmp_path / "raw", tmp_path / "out")
    assert {entry["table"] for entry in manifest["dropped"]} == {"measurements"}
    assert manifest["files"]["kernels/test-00000-of-00001.parquet"]["rows"] == 2


def test_an_unseen_task_is_seen_by_no_other_split(tmp_path: Path) -> None:
    logs = [
        read_search(make_search("column_scan", split, kernels=3).save(tmp_path / "raw"))
        for split in ("test_unseen_task", "train")
    ]
    assert unseen_tasks(seed_splits(logs[:1])) == ["column_scan"]
    with pytest.raises(LogError, match="task 'column_scan' is in test_unseen_task, but another search uses its seed"):
        unseen_tasks(seed_splits(logs))


def test_the_manifest_lists_seeds_searches_and_rules(synthetic_folder: Path) -> None:
    splits = json.loads((synthetic_folder / "manifest.json").read_text())["splits"]
    assert splits["unseen_tasks"] == ["column_scan"] and set(splits["rules"]) >= {"seeds", "near-duplicate"}
    assert splits["searches"]["validation"] == ["row_softmax-validation-0", "row_total-validation-0"]


def test_the_committed_dataset_does_not_leak() -> None:
    """Lineage, structure and likeness of the dataset that is shipped: nothing scored is near what is learnt from."""
    seeds = load_manifest(DEFAULT_DATASET)["splits"]["seeds"]
    nodes = load_table("nodes", dataset=DEFAULT_DATASET).to_pylist()
    assert all(seeds[node["task"]][node["seed_id"]] == node["split"] for node in nodes)
    search_splits: dict[str, set[str]] = {}
    for node in nodes:
        search_splits.setdefault(node["search_id"], set()).add(node["split"])
    assert all(len(splits) == 1 for splits in search_splits.values())
    kernels = load_kernels(dataset=DEFAULT_DATASET, columns=["kernel_id", "split", "structure_hash"]).to_pylist()
    of = {
        split: {k["structure_hash"] for k in kernels if k["split"] == split}
        for split in ("train", "validation", *TEST_SPLITS)
    }
    scored = of["test"] | of["test_unseen_task"]
    assert not of["train"] & of["validation"] and not (of["train"] | of["validation"]) & scored
    pairs = load_table(
        "pairs", dataset=DEFAULT_DATASET, columns=["pair_id", "search_id", "parent_id", "child_id", "split"]
    )
    split_of = {k["kernel_id"]: k["split"] for k in kernels}
    for pair in pairs.to_pylist():
        assert split_of[pair["parent_id"]] == split_of[pair["child_id"]] == pair["split"]
        assert pair["pair_id"] == pair_id(pair["search_id"], pair["parent_id"], pair["child_id"])


@pytest.mark.slow
def test_the_committed_dataset_has_no_near_duplicates_across_splits() -> None:
    from benchmark.audit import audit
    from benchmark.data_access import dataset_path

    for row in audit(dataset_path(DEFAULT_DATASET))["near_duplicates"]:
        assert row["same_structure"] == row["near_duplicates"] == 0 and row["highest_jaccard"] < THRESHOLD
