"""Reports: curves and rows against values worked out by hand, figures that are PNG, and a page that needs nothing."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.search.figures import best_so_far, layout, lineage
from harness.search.node import CaseMedian, Node
from harness.search.page import cell, page, table
from harness.search.report import Run, find_runs, interval, operators, rows_of
from harness.search.state import SearchState
from tests.harness.search.conftest import RECORDED

PNG = b"\x89PNG\r\n\x1a\n"


def run(name: str, arm: str, values: list[float | None]) -> Run:
    state = SearchState(search_id=name, config={"arm": arm, "split": "test"}, task={"name": "t"}, measured=len(values))
    for i, value in enumerate(values):
        status = "ok" if value is not None else "incorrect"
        parent = None if i == 0 else f"{name}/0"
        edit = None if i == 0 else "tile_size+num_warps" if i == 1 else "tile_size"
        state.nodes[f"{name}/{i}"] = Node(
            f"{name}/{i}",
            f"k-{i}",
            "",
            "triton",
            min(i, 1),
            "s",
            parent,
            operator=edit,
            status=status,
            value=value,
            cases=() if value is None else (CaseMedian("c", 1.0, 2.0**value),),
        )
    best = np.maximum.accumulate([-math.inf if v is None else v for v in values])
    return Run(state, np.where(np.isneginf(best), np.nan, best))


RUNS = [
    run("a", "gpu-only", [0.0, 0.02, None, 1.0]),
    run("b", "gpu-only", [0.0, None, None, 0.6]),
    run("c", "gpu-only", [0.0, 0.2, 0.2, 0.2]),
    run("d", "random", [None, None]),
    run("e", "filter", [0.0, 0.7]),
]


def test_a_search_without_times_has_no_speedup() -> None:
    untimed = run("u", "gpu-only", [0.0, 0.0])
    for name, node in untimed.state.nodes.items():
        untimed.state.nodes[name] = replace(node, cases=())
    (row,) = rows_of([untimed])
    assert (row["best_speedup"], row["measured"]) == (None, 2)


def test_rows_say_what_was_found_and_spent() -> None:
    rows = {row["arm"]: row for row in rows_of(RUNS)}
    gpu_only = rows["gpu-only"]
    assert (gpu_only["searches"], gpu_only["measured"]) == (3, 12)
    assert gpu_only["best_speedup"] == pytest.approx(2**0.6)  # the geometric mean of 2, 2^0.6 and 2^0.2
    assert 2**0.2 <= gpu_only["best_low"] < 2**0.6 < gpu_only["best_high"] <= 2
    # The target is log2 = 0.6 + log2(0.95): reached after 4, 4 and never.
    assert gpu_only["to_near_best"] == 4
    assert (rows["filter"]["to_near_best"], rows["random"]["to_near_best"]) == (2, None)
    # Nine children: a has 0.02, failed, 1.0; b failed, failed, 0.6; c 0.2 three times.
    assert gpu_only["ok_share"] == pytest.approx(6 / 9)
    assert gpu_only["changed_share"] == pytest.approx(5 / 9)
    assert gpu_only["discovery_share"] == pytest.approx(2 / 9)
    assert rows["random"]["best_speedup"] is None and rows["random"]["ok_share"] is None
    assert rows["filter"]["best_low"] is None


def test_an_interval_needs_three_searches() -> None:
    rng = np.random.default_rng(0)
    assert interval(np.array([1.0, 2.0]), rng) == (None, None)
    assert interval(np.array([1.0, 1.0, 1.0]), rng) == (1.0, 1.0)


def test_a_child_of_two_edits_counts_for_both() -> None:
    rows = {row["operator"]: row for row in operators(RUNS)}
    assert rows["num_warps"]["children"] == 4
    assert rows["num_warps"]["ok_share"] == pytest.approx(3 / 4)
    assert rows["tile_size"]["children"] == 10
    assert rows["tile_size"]["discovery_share"] == pytest.approx(3 / 10)


def test_curves_come_from_the_log(recording_folder: Path) -> None:
    (found,) = find_runs([recording_folder, recording_folder.parent])
    assert len(found.curve) == found.state.measured
    assert found.best == pytest.approx(max(n.value for n in found.state.nodes.values() if n.value is not None))
    assert np.all(np.diff(found.curve[~np.isnan(found.curve)]) >= 0)
    assert found.group == (RECORDED.task, "test", "gpu-only")


def test_a_folder_without_a_search_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no search here; expected events.jsonl in it"):
        find_runs([tmp_path])


def test_a_parent_stands_above_the_middle_of_its_children() -> None:
    state = SearchState()
    for name, parent in (("a", None), ("b", "a"), ("c", "a"), ("d", "c"), ("e", "c"), ("f", None)):
        state.nodes[name] = Node(name, name, "", "triton", 0, "s", parent)
    assert layout(state) == {"a": (0.75, 0), "b": (0.0, 1), "c": (1.5, 1), "d": (1.0, 2), "e": (2.0, 2), "f": (3.0, 0)}


def test_figures_are_png_and_the_page_holds_them(recording_folder: Path) -> None:
    (found,) = find_runs([recording_folder])
    figures = {"best": best_so_far("t <test>", [*RUNS, found]), "tree": lineage(found.state)}
    assert all(png.startswith(PNG) and len(png) > 5000 for png in figures.values())
    text = page("Searches <1>", {"Rows": rows_of(RUNS), "None": []}, figures)
    assert "Searches &lt;1&gt;" in text and "Nothing to show." in text
    assert text.count("data:image/png;base64,") == 2
    assert not re.search(r'(?:src|href)="(?!data:)', text)


def test_cells() -> None:
    shown = [
        cell(*pair)
        for pair in (("ok_share", 0.5), ("best_low", 1.25), ("tokens", 7), ("forecast_s", 0.26), ("x", None))
    ]
    assert shown == ["50.0%", "1.250x", "7", "0.3", "-"]
    assert "<td class=text>a&amp;b</td>" in table([{"arm": "a&b"}])
