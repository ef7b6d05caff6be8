"""The search loop: exact budgets, anchors, duplicates, interruption and errors of the backend."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

import tasks
from harness.measure.result import Measurement
from harness.search.config import SearchConfig
from harness.search.events import FILE_NAME, read_events
from harness.search.run import run_search
from harness.search.state import SearchState, fold
from tests.harness.search.table_backend import NumberingMutator, TableBackend

SEEDS = tasks.seed_names("fp8_quant", "train")
MUTATOR = NumberingMutator(5, 4)
CONFIG = SearchConfig("fp8_quant-train-0", "fp8_quant", "train", SEEDS, 30, children_per_parent=5)


@pytest.mark.parametrize("budget", [1, len(SEEDS), len(SEEDS) + 1, 30])
def test_the_budget_is_spent_exactly(tmp_path: Path, budget: int) -> None:
    backend = TableBackend()
    state = run_search(replace(CONFIG, budget=budget), backend, tmp_path, mutator=MUTATOR)
    assert state.measured == len(state.nodes) == budget
    assert state.completed == "budget"
    assert sum(backend.submitted.values()) == budget + len(state.anchors)


def test_every_selected_parent_with_children_is_measured_again(tmp_path: Path) -> None:
    state = run_search(CONFIG, TableBackend(), tmp_path, mutator=MUTATOR)
    expanded = {(node.step, node.parent_node_id) for node in state.nodes.values() if node.step}
    assert state.step > 1
    assert set(state.anchors) == expanded
    roles = Counter(e["role"] for e in read_events(tmp_path / FILE_NAME) if e["kind"] == "measured")
    assert roles == {"candidate": 30, "anchor": len(expanded)}


def test_no_source_is_a_candidate_twice(tmp_path: Path) -> None:
    state = run_search(CONFIG, TableBackend(), tmp_path, mutator=MUTATOR)
    counts = Counter(node.code for node in state.nodes.values())
    assert max(counts.values()) == 1
    assert [node.node_id for node in state.nodes.values()] == [f"fp8_quant-train-0/{i}" for i in range(30)]


def test_a_mutator_that_runs_out_ends_the_search(tmp_path: Path) -> None:
    config = replace(CONFIG, budget=1000)
    state = run_search(config, TableBackend(), tmp_path, mutator=NumberingMutator(children=2))
    assert state.completed == "exhausted"
    working = [n for n in state.nodes.values() if n.value is not None]
    shallow = [n for n in working if n.code.count("number = ") < 2]
    assert len(state.nodes) == len(SEEDS) + 2 * len(shallow)
    assert state.exhausted == {n.node_id for n in working}
    before = (tmp_path / FILE_NAME).read_bytes()
    assert run_search(config, TableBackend(), tmp_path, mutator=NumberingMutator(children=2)) == state
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_seeds_are_added_once_however_often_a_search_is_resumed(tmp_path: Path) -> None:
    state = SearchState()
    for fail_after in (2, 5, 9, None):
        backend = TableBackend(fail_after=fail_after)
        if fail_after is None:
            state = run_search(CONFIG, backend, tmp_path, mutator=MUTATOR)
        else:
            with pytest.raises(OSError, match="the table is closed"):
                run_search(CONFIG, backend, tmp_path, mutator=MUTATOR)
    events = read_events(tmp_path / FILE_NAME)
    assert Counter(e["seed_id"] for e in events if e["kind"] == "seed_added") == Counter(SEEDS)
    assert sum(e["kind"] == "session_started" for e in events) == 4
    assert state == run_search(CONFIG, TableBackend(7), tmp_path / "straight", mutator=MUTATOR)


def test_an_interrupt_leaves_a_log_that_goes_on(tmp_path: Path) -> None:
    calls = 0

    def interrupt(state: SearchState) -> None:
        nonlocal calls
        calls += 1
        if calls == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_search(CONFIG, TableBackend(), tmp_path, progress=interrupt, mutator=MUTATOR)
    events = read_events(tmp_path / FILE_NAME)
    assert events[-1]["reason"] == "interrupted"
    assert not fold(events).finished
    assert run_search(CONFIG, TableBackend(3), tmp_path, mutator=MUTATOR) == run_search(
        CONFIG, TableBackend(), tmp_path / "straight", mutator=MUTATOR
    )


def test_a_stopped_search_starts_nothing_new(tmp_path: Path) -> None:
    stopped = False

    def progress(state: SearchState) -> None:
        nonlocal stopped
        stopped = stopped or state.measured >= 8

    backend = TableBackend()
    state = run_search(CONFIG, backend, tmp_path, progress, stop=lambda: stopped, mutator=MUTATOR)
    assert state.completed == "interrupted"
    assert 8 <= state.measured < 30
    assert run_search(CONFIG, TableBackend(4), tmp_path, mutator=MUTATOR) == run_search(
        CONFIG, TableBackend(), tmp_path / "straight", mutator=MUTATOR
    )


def test_an_error_of_the_backend_loses_no_finished_measurement(tmp_path: Path) -> None:
    class Breaking(TableBackend):
        def submit(self, task: str, code: str, language: str | None = None) -> Future[Measurement]:
            future = super().submit(task, code, language)
            if sum(self.submitted.values()) < 8:
                return future
            future.cancel()
            broken: Future[Measurement] = Future()
            broken.set_exception(OSError("the device is gone"))
            return broken

    with pytest.raises(OSError, match="the device is gone"):
        run_search(CONFIG, Breaking(), tmp_path, mutator=MUTATOR)
    state = fold(read_events(tmp_path / FILE_NAME))
    assert len(SEEDS) <= state.measured < len(state.nodes)
    assert run_search(CONFIG, TableBackend(5), tmp_path, mutator=MUTATOR) == run_search(
        CONFIG, TableBackend(), tmp_path / "straight", mutator=MUTATOR
    )


def test_events_carry_what_the_dataset_needs(tmp_path: Path) -> None:
    run_search(replace(CONFIG, budget=len(SEEDS) + 4), TableBackend(), tmp_path)
    events = read_events(tmp_path / FILE_NAME)
    assert [e["index"] for e in events] == list(range(len(events)))
    first = events[0]
    assert first["kind"] == "search_started"
    assert first["config"]["seeds"] == list(SEEDS)
    assert {"mutator", "isolation", "arm", "c_puct"} <= set(first["config"])
    timing = [c["case_id"] for c in first["task"]["cases"] if c["timing"]]
    assert timing == [c.case_id for c in tasks.get("fp8_quant").timing_cases]
    assert events[1]["kind"] == "session_started"
    proposed = [e for e in events if e["kind"] == "proposed"]
    assert len(proposed) == 4
    for event in proposed:
        assert event["origin"] == "mutation"
        assert event["operator"]
        assert event["language"] in ("triton", "cuda", "torch")
    assert events[-1] == {"index": len(events) - 1, "kind": "search_completed", "reason": "budget"}


def test_a_split_without_seeds_is_refused() -> None:
    with pytest.raises(ValueError, match="split 'test' of task 't' has no seeds"):
        SearchConfig("x", "t", "test", (), 3)
    with pytest.raises(ValueError, match="budget is 0, expected at least 1"):
        SearchConfig("x", "t", "test", ("a",), 0)
