"""Logs that a crash has cut off, damaged logs, and resuming from every prefix."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import tasks
from harness.search.config import SearchConfig
from harness.search.events import FILE_NAME, EventLog, LogError, read_events
from harness.search.mutate import Mutator
from harness.search.run import run_search
from harness.search.state import SearchState, fold
from tests.harness.search.table_backend import NumberingMutator, TableBackend

SEEDS = tasks.seed_names("rms_norm", "train")
CONFIG = SearchConfig("rms_norm-train-0", "rms_norm", "train", SEEDS, 14, children_per_parent=3)


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, SearchState]:
    """The log of a whole search, and its last state."""
    folder = tmp_path_factory.mktemp("whole")
    state = run_search(CONFIG, TableBackend(1, wait_s=0.0), folder, mutator=NumberingMutator())
    return (folder / FILE_NAME).read_bytes(), state


def measured_codes(raw: bytes) -> set[str]:
    state = fold(json.loads(line) for line in raw.split(b"\n")[:-1])
    return {node.code for node in state.nodes.values() if node.status is not None}


def assert_resumes(
    tmp_path: Path, raw: bytes, cut: int, state: SearchState, order: int, mutator: Mutator | None = None
) -> None:
    folder = tmp_path / str(cut)
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(raw[:cut])
    kept = raw[: raw.rfind(b"\n", 0, cut) + 1]
    backend = TableBackend(order, wait_s=0.0)
    assert run_search(CONFIG, backend, folder, mutator=mutator) == state, cut
    assert fold(read_events(folder / FILE_NAME)) == state
    anchors = {state.nodes[parent].code for step in state.steps for parent in step.parents}
    paid_twice = {code for code in backend.submitted if code in measured_codes(kept)} - anchors
    assert not paid_twice


def test_resumes_from_every_event(tmp_path: Path, complete: tuple[bytes, SearchState], no_fsync: None) -> None:
    raw, state = complete
    ends = [i + 1 for i, byte in enumerate(raw) if byte == ord("\n")]
    for order, cut in enumerate([0, *ends]):
        assert_resumes(tmp_path, raw, cut, state, order, NumberingMutator())


def test_the_source_mutator_proposes_the_same_again(tmp_path: Path, no_fsync: None) -> None:
    state = run_search(CONFIG, TableBackend(1), tmp_path / "whole")
    raw = (tmp_path / "whole" / FILE_NAME).read_bytes()
    ends = [i + 1 for i, byte in enumerate(raw) if byte == ord("\n")]
    for order, cut in enumerate(ends[len(SEEDS) + 4 :: 6]):
        assert_resumes(tmp_path, raw, cut, state, order)


def test_resumes_from_bytes_of_the_last_kilobyte(tmp_path: Path, no_fsync: None) -> None:
    mutator = NumberingMutator()
    state = run_search(CONFIG, TableBackend(1), tmp_path, mutator=mutator)
    raw = (tmp_path / FILE_NAME).read_bytes()
    for cut in range(len(raw) - 1024, len(raw), 5):
        assert_resumes(tmp_path, raw, cut, state, cut, mutator)


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(lines))
    return path


FIRST = b'{"index": 0, "kind": "a", "text": "\xc3\xa9"}\n'


@pytest.mark.parametrize("tail", [b"{", b'{"index": 1, "kin', b'{"index": 1, "kind": "b", "text": "\xc3', b"\0\0\0\0"])
def test_a_line_cut_off_is_removed_before_the_next_append(tmp_path: Path, tail: bytes) -> None:
    path = write(tmp_path / "log", FIRST, tail)
    assert len(read_events(path)) == 1
    with EventLog(path) as log:
        log.append("b", {"text": "é"})
    assert [event["kind"] for event in read_events(path)] == ["a", "b"]
    assert path.read_bytes().startswith(FIRST)


def test_a_whole_line_without_its_newline_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "log", FIRST, b'{"index": 1, "kind": "b"}')
    assert [event["kind"] for event in read_events(path)] == ["a", "b"]
    with EventLog(path) as log:
        assert log.append("c", {})["index"] == 2
    assert [event["kind"] for event in read_events(path)] == ["a", "b", "c"]


def test_damage_in_the_middle_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "log", FIRST, b'{"index": 1, "ki\n', b'{"index": 2, "kind": "c"}\n')
    with pytest.raises(LogError, match="line 2: not a JSON object"):
        EventLog(path)
    assert path.read_bytes().count(b"\n") == 3


def test_a_missing_line_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "log", FIRST, b'{"index": 2, "kind": "c"}\n')
    with pytest.raises(LogError, match="line 2: event index 2, expected 1; lines are missing"):
        read_events(path)


def test_another_file_is_not_taken_for_a_log(tmp_path: Path) -> None:
    path = write(tmp_path / "log", b'{"speedup": 1.0}\n')
    with pytest.raises(LogError, match="this is not the log of a search"):
        EventLog(path)


def test_a_log_has_one_writer(tmp_path: Path) -> None:
    with (
        EventLog(tmp_path / "log"),
        pytest.raises(LogError, match="another process writes this log"),
    ):
        EventLog(tmp_path / "log")
    EventLog(tmp_path / "log").close()


def test_not_a_number_is_never_written(tmp_path: Path) -> None:
    with EventLog(tmp_path / "log") as log:
        with pytest.raises(ValueError, match="not JSON compliant"):
            log.append("measured", {"speedup": float("nan")})
        log.append("measured", {"speedup": None})
    assert len(read_events(tmp_path / "log")) == 1


def test_an_interrupt_between_write_and_count_does_not_repeat_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(file: int) -> None:
        raise KeyboardInterrupt

    log = EventLog(tmp_path / "log")
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            log.append("a", {})
    assert log.append("b", {})["index"] == 1
    log.close()
    assert [event["kind"] for event in read_events(tmp_path / "log")] == ["a", "b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"budget": 15}, "budget is 14 in the log and 15 now"),
        ({"children_per_parent": 4, "seed": 9}, "children_per_parent is 3 in the log and 4 now; seed is 0 in the log"),
        ({"search_id": "other"}, "the log of search 'rms_norm-train-0', not of 'other'"),
    ],
)
def test_another_configuration_is_refused_and_named(
    tmp_path: Path, complete: tuple[bytes, SearchState], change: dict[str, object], message: str
) -> None:
    from dataclasses import replace

    (tmp_path / FILE_NAME).write_bytes(complete[0])
    with pytest.raises(LogError, match=message):
        run_search(replace(CONFIG, **change), TableBackend(), tmp_path, mutator=NumberingMutator())  # type: ignore[arg-type]
    assert (tmp_path / FILE_NAME).read_bytes() == complete[0]


def test_another_isolation_is_another_configuration(tmp_path: Path, complete: tuple[bytes, SearchState]) -> None:
    (tmp_path / FILE_NAME).write_bytes(complete[0])
    backend = TableBackend()
    backend.session["isolation"] = "shared"
    with pytest.raises(LogError, match="isolation is 'strict' in the log and 'shared' now"):
        run_search(CONFIG, backend, tmp_path, mutator=NumberingMutator())


def test_the_order_in_which_measurements_finish_does_not_matter(
    tmp_path: Path, complete: tuple[bytes, SearchState]
) -> None:
    for order in (2, 3):
        found = run_search(CONFIG, TableBackend(order), tmp_path / str(order), mutator=NumberingMutator())
        assert found == complete[1]
