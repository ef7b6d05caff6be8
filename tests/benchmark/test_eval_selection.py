from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from benchmark.bins import BINS, bin_of
from benchmark.data_access import available_tracks, load_eval, load_kernels, load_labels, load_pairs, load_queries
from benchmark.eval_selection import KINDS, select
from benchmark.identity import eval_id
from benchmark.integrity import check_dataset
from benchmark.package import package
from tests.factory import make_search


def candidates(kind: str, first_bin: int, counts: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {"pair_id": f"e-{kind}-{first_bin}-{task}-{i:04d}", "anchor_kind": kind, "first_bin": first_bin, "task": task}
        for task, n in counts.items()
        for i in range(n)
    ]


def test_every_cell_gets_the_same_number_and_no_task_more_than_a_quarter() -> None:
    tasks = {f"task-{t}": 40 for t in range(6)}
    rows = [row for kind in KINDS for b in BINS for row in candidates(kind, b, tasks)]
    chosen, cells = select(rows)
    assert {(cell.selected, cell.short, cell.available) for cell in cells} == {(27, 0, 240)} and len(chosen) == 432
    by_cell: dict[tuple[str, int], Counter[str]] = {}
    for row in chosen:
        by_cell.setdefault((row["anchor_kind"], row["first_bin"]), Counter())[row["task"]] += 1
    assert all(max(count.values()) <= 27 / 4 for count in by_cell.values())
    # 27 rows of six tasks: three give five rows and three give four, of 40 each.
    assert {row["weight"] for row in chosen} == {40 / 5, 40 / 4}
    assert sum(row["weight"] for row in chosen) == pytest.approx(len(rows))


def test_a_cell_that_is_short_says_so_and_others_make_up_for_it() -> None:
    rows = [r for kind in KINDS for b in BINS for r in candidates(kind, b, {f"task-{t}": 100 for t in range(8)})]
    rows = [r for r in rows if not (r["anchor_kind"] == "parent" and r["first_bin"] == 8)]
    rows += candidates("parent", 8, {"a": 1, "b": 1, "c": 1, "d": 1, "e": 90})
    chosen, cells = select(rows)
    (short,) = [cell for cell in cells if cell.short]
    # Five tasks, one row each but for `e`: a fifth row would still be within the cap of 5 // 4 = 1 for each.
    assert (short.anchor_kind, short.bin, short.available, short.selected) == ("parent", 8, 94, 5)
    assert len(chosen) >= 424 and {cell.selected for cell in cells if not cell.short} == {28}


def test_the_choice_does_not_depend_on_the_order() -> None:
    rows = [row for kind in KINDS for b in BINS for row in candidates(kind, b, {f"task-{t}": 30 for t in range(5)})]
    assert select(rows) == select(rows[::-1])


def test_without_candidates_every_cell_is_short() -> None:
    chosen, cells = select([])
    assert not chosen and len(cells) == 16 and all(cell.short == 27 for cell in cells)


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    for task in ("row_total", "row_softmax", "row_norm", "row_max", "column_scan", "column_sum"):
        split = "test_unseen_task" if task.startswith("column") else "test"
        make_search(task, split, kernels=8, again=True).save(root / "twice" / "raw")
    make_search("row_total", "train", kernels=3).save(root / "twice" / "raw")
    package("twice", root / "twice" / "raw", root / "twice")
    assert check_dataset(root / "twice") == []
    return root


@pytest.fixture
def measured_twice(packaged: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("KERNELCAST_DATA", str(packaged))
    return "twice"


def test_labels_are_the_second_measurement(measured_twice: str) -> None:
    assert available_tracks(measured_twice) == ("pairs", "eval", "pool")
    kernels = {row["kernel_id"]: row for row in load_kernels(dataset=measured_twice).to_pylist()}
    pairs = {(row["parent_id"], row["child_id"]): row for row in load_pairs(dataset=measured_twice).to_pylist()}
    rows = load_eval(dataset=measured_twice).to_pylist()
    assert {row["anchor_kind"] for row in rows} == {"reference", "parent"}
    assert {row["split"] for row in rows} <= {"test", "test_unseen_task"}
    for row in rows:
        source = (
            kernels[row["candidate_id"]] if row["anchor_id"] is None else pairs[row["anchor_id"], row["candidate_id"]]
        )
        assert row["pair_id"] == eval_id(row["task"], row["anchor_id"], row["candidate_id"])
        assert (row["speedup"], row["speedup_low"]) == (source["second_speedup"], source["second_speedup_low"])
        assert (row["first_speedup"], row["first_bin"]) == (source["speedup"], source["bin"])
        assert row["bin"] == bin_of(row["speedup"]) and row["speedup"] != row["first_speedup"]
    for split in ("test", "test_unseen_task"):
        queries, labels = load_queries("eval", split, measured_twice), load_labels("eval", split, measured_twice)
        assert [q.query_id for q in queries] == labels.column("query_id").to_pylist()
        assert {q.anchor_kind for q in queries} == {"reference", "parent"}
        assert min(labels.column("weight").to_pylist()) >= 1 and labels.column("second_speedup").null_count == 0


def test_second_speedups_serve_the_pool_and_the_pairs(measured_twice: str) -> None:
    for track in ("pairs", "pool"):
        labels = load_labels(track, "test", measured_twice).to_pylist()
        ok = [row for row in labels if row["status"] == "ok"]
        assert ok and all(row["second_speedup"] is not None and row["weight"] == 1 for row in ok)
        assert all(row["second_speedup"] is None for row in labels if row["status"] != "ok")
    assert set(load_pairs("train", measured_twice).column("second_speedup").to_pylist()) == {None}
