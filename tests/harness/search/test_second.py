"""The second measurement of finished searches: each kernel once, resumable, and joined to the logs."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import harness.search.second as second
from benchmark.event_log import read_search
from harness.search.events import FILE_NAME, LogError, read_events
from harness.search.launch import Options
from harness.search.second import SECOND_NAME, join_folder, plan, remeasure
from harness.search.state import fold
from tests.harness.search.conftest import RECORDED
from tests.harness.search.table_backend import TableBackend


@pytest.fixture
def raw(tmp_path: Path, recording_folder: Path) -> Path:
    folder = tmp_path / "raw" / RECORDED.search_id
    shutil.copytree(recording_folder, folder)
    return folder.parent


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch, no_fsync: None) -> list[TableBackend]:
    """The table in the place of a device; it fails in its first session after twenty kernels."""
    opened: list[TableBackend] = []

    @contextmanager
    def table(*_: object) -> Iterator[TableBackend]:
        opened.append(TableBackend(50 + len(opened), fail_after=20 if not opened else None, wait_s=0.0))
        yield opened[-1]

    monkeypatch.setattr(second, "open_live_backend", table)
    return opened


def test_every_kernel_that_worked_is_measured_once_more(
    tmp_path: Path, raw: Path, backends: list[TableBackend]
) -> None:
    out = tmp_path / "second"
    with pytest.raises(OSError, match="the table is closed"):
        remeasure(raw, ["test"], Options(out, quiet=True))
    done = remeasure(raw, ["test"], Options(out, quiet=True))
    log = read_search(raw / RECORDED.search_id / FILE_NAME)
    ok = {e.node_id for e in log.measured if e.role == "candidate" and e.record["status"] == "ok"}
    assert (done.measured, done.kernels, done.stopped) == (len(ok), len(ok), False)
    assert done.here == len(ok) - 20
    events = read_events(out / RECORDED.search_id / SECOND_NAME)
    counts = Counter(e["node_id"] for e in events if e["kind"] == "measured")
    assert set(counts) == ok and set(counts.values()) == {1}
    assert {e["session"]["role"] for e in events if e["kind"] == "session_started"} == {"second"}
    again = remeasure(raw, ["test"], Options(out, quiet=True))
    assert again.here == 0 and again.line().startswith(f"[{len(ok)}/{len(ok)}] measured again")


def test_a_joined_log_says_what_the_search_said_and_more(
    tmp_path: Path, raw: Path, backends: list[TableBackend]
) -> None:
    backends.append(TableBackend())
    remeasure(raw, ["test"], Options(tmp_path / "second", quiet=True))
    assert join_folder(raw, tmp_path / "second", tmp_path / "joined") == 1
    path = tmp_path / "joined" / RECORDED.search_id / "events.jsonl.gz"
    log, before = read_search(path), read_search(raw / RECORDED.search_id / FILE_NAME)
    assert fold(log.events) == fold(before.events)
    more = log.measured[len(before.measured) :]
    assert {log.sessions[e.record["session_id"]]["role"] for e in more} == {"second"}
    assert log.events[: len(before.events)] == before.events
    with pytest.raises(FileExistsError, match="exists already"):
        join_folder(raw, tmp_path / "second", tmp_path / "joined")
    with pytest.raises(LogError, match="holds the events of"):
        join_folder(tmp_path / "joined", tmp_path / "second", tmp_path / "twice")


def test_no_time_left_starts_nothing(tmp_path: Path, raw: Path, backends: list[TableBackend]) -> None:
    done = remeasure(raw, ["test"], Options(tmp_path / "second", quiet=True, time_limit=1e-9))
    assert done.stopped and done.here == 0
    assert done.line().endswith("; the same command continues")


def test_a_split_without_searches_is_refused(tmp_path: Path, raw: Path) -> None:
    with pytest.raises(ValueError, match="no search of split train or validation"):
        remeasure(raw, ["train", "validation"], Options(tmp_path / "second"))


def test_a_kernel_of_two_searches_is_measured_in_the_first(raw: Path) -> None:
    log = read_search(raw / RECORDED.search_id / FILE_NAME)
    once = plan([log])[log.search_id]
    log_b = read_search(raw / RECORDED.search_id / FILE_NAME)
    log_b.search_id = "b"
    planned = plan([log, log_b])
    assert planned["b"] == [] and len(planned[log.search_id]) == len(once) > 20
