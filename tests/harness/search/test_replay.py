"""Replays: they reproduce the recorded search, charge its seconds once, raise on a miss, and survive any cut."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.data_access import DataError, dataset_path
from benchmark.event_log import find_logs, read_search
from harness.search.arms import ARMS
from harness.search.config import SearchConfig
from harness.search.events import FILE_NAME, read_events
from harness.search.mutate import RecordedMutator
from harness.search.recording import Recording, load_recording
from harness.search.replay import NotRecorded, ReplayBackend, recorded_problem
from harness.search.run import run_search
from harness.search.state import SearchState, fold
from tests.harness.search.conftest import RECORDED
from tests.harness.search.hash_surrogate import HashSurrogate, hash_forecaster

SPECULATIVE = replace(
    RECORDED, budget=24, arm="speculative", surrogate="hash", children_per_parent=6, measured_per_parent=1
)


def replay(
    config: SearchConfig, recording: Recording, folder: Path, surrogate: HashSurrogate | None = None,
    backend: ReplayBackend | None = None,
) -> SearchState:  # fmt: skip
    return run_search(
        config, backend or ReplayBackend(recording), folder, mutator=RecordedMutator(recording),
        problem=recorded_problem(recording), forecaster=hash_forecaster(surrogate) if ARMS[config.arm].asks else None,
    )  # fmt: skip


def test_a_replay_reproduces_the_recorded_search(tmp_path: Path, recording_folder: Path, recording: Recording) -> None:
    recorded = fold(read_events(recording_folder / FILE_NAME))
    state = replay(RECORDED, recording, tmp_path)
    assert state.nodes == recorded.nodes
    assert state.steps == recorded.steps
    assert (state.anchors, state.exhausted, state.completed) == (recorded.anchors, recorded.exhausted, "budget")


def test_the_packaged_searches_are_reproduced_as_far_as_they_went(tmp_path: Path) -> None:
    paths = find_logs(dataset_path("h200-v0") / "raw")
    for path in random.Random(0).sample(paths, 3):
        log = read_search(path)
        recorded = fold(log.events)
        recording = load_recording("h200-v0", log.task["name"], log.split, [log.search_id])
        seeds = tuple(recorded.config["seeds"])
        config = SearchConfig(log.search_id, log.task["name"], log.split, seeds, recorded.measured)
        state = replay(config, recording, tmp_path / log.search_id)
        finished = [n for n in recorded.nodes.values() if n.step <= recorded.steps_completed]
        assert len(finished) > 30
        assert [state.nodes.get(n.node_id) for n in finished] == finished


def test_recorded_seconds_are_charged_once(recording: Recording) -> None:
    backend = ReplayBackend(recording)
    codes = list(recording.seeds.values())
    first = [backend.submit("rms_norm", code).result() for code in codes]
    costs = math.fsum(m.compile_s + m.check_s + m.timing_s for m in first)
    assert backend.clock_s == costs > 0
    again = backend.submit("rms_norm", codes[0]).result()
    assert backend.clock_s == costs
    assert (again.compile_s, again.check_s, again.timing_s) == (0.0, 0.0, 0.0)
    assert (again.status, again.cases) == (first[0].status, first[0].cases)


def test_a_kernel_that_was_not_recorded_is_a_miss(recording: Recording) -> None:
    with pytest.raises(NotRecorded, match=r"kernel k-\w+ of task 'rms_norm' is not in the recording"):
        ReplayBackend(recording).submit("rms_norm", "x = 1\n")


def test_recorded_children_come_in_order_and_once(recording: Recording) -> None:
    mutator = RecordedMutator(recording)
    parent, children = next((k, c) for k, c in recording.children.items() if len(c) > 3)
    code = next(c for c in [*recording.seeds.values(), *(p.code for ch in recording.children.values() for p in ch)]
                if mutator.propose(c, random.Random(0), 9) == list(children))  # fmt: skip
    known = {children[0].code}
    assert mutator.propose(code, random.Random(1), 2, known=known.__contains__) == list(children[1:3])
    assert mutator.propose("x = 1\n", random.Random(1), 2) == []
    assert parent in recording.measurements


def test_a_tree_that_runs_out_ends_the_search(tmp_path: Path, recording: Recording) -> None:
    state = replay(replace(RECORDED, budget=10_000), recording, tmp_path)
    assert state.completed == "exhausted"
    leaves = [n for n in state.nodes.values() if n.value is not None and n.kernel_id not in recording.children]
    assert leaves and {n.node_id for n in leaves} <= state.exhausted


@pytest.mark.parametrize("arm", ARMS)
def test_a_replay_is_deterministic_given_its_seed(tmp_path: Path, recording: Recording, arm: str) -> None:
    config = replace(SPECULATIVE, arm=arm, surrogate="hash" if ARMS[arm].asks else None, budget=20)
    first, second = (replay(config, recording, tmp_path / name) for name in "ab")
    assert first == second
    if arm == "random":
        assert replay(replace(config, seed=9), recording, tmp_path / "c").chosen != first.chosen


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, recording: Recording) -> tuple[bytes, SearchState]:
    """The log of a whole speculative replay, and its last state."""
    folder = tmp_path_factory.mktemp("whole")
    state = replay(SPECULATIVE, recording, folder)
    kinds = {e["kind"] for e in read_events(folder / FILE_NAME)}
    assert kinds >= {"calibrated", "proposed", "forecast", "chosen", "rescored", "measured", "step_completed"}
    return (folder / FILE_NAME).read_bytes(), state


def assert_resumes(tmp_path: Path, recording: Recording, raw: bytes, cut: int, state: SearchState) -> None:
    folder = tmp_path / "cut"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(raw[:cut])
    kept = fold(json.loads(line) for line in raw[: raw.rfind(b"\n", 0, cut) + 1].splitlines())
    backend, surrogate = ReplayBackend(recording), HashSurrogate()
    assert replay(SPECULATIVE, recording, folder, surrogate, backend) == state, cut
    events = read_events(folder / FILE_NAME)
    assert fold(events) == state
    paid = [e["node_id"] for e in events if e["kind"] == "measured" and e["role"] == "candidate"]
    assert len(paid) == len(set(paid)) == state.measured
    # At most the event in the torn line is asked about or measured again.
    later = events[raw.count(b"\n", 0, cut) :]
    assert kept.measured + sum(e["kind"] == "measured" and e["role"] == "candidate" for e in later) == state.measured
    assert len(surrogate.asked) <= state.costs.forecasts - kept.costs.forecasts


def ends_of(raw: bytes) -> list[int]:
    return [i + 1 for i, byte in enumerate(raw) if byte == ord("\n")]


def test_resumes_from_events_of_every_kind(
    tmp_path: Path, recording: Recording, whole: tuple[bytes, SearchState], no_fsync: None
) -> None:
    raw, state = whole
    ends = ends_of(raw)
    kinds = [json.loads(line)["kind"] for line in raw.splitlines()]
    by_kind = {kind: [i for i, k in enumerate(kinds) if k == kind] for kind in sorted(set(kinds))}
    rng = random.Random(1)
    chosen = {i for places in by_kind.values() for i in rng.sample(places, min(2, len(places)))}
    for i in sorted(chosen):
        assert_resumes(tmp_path, recording, raw, ends[i], state)


@pytest.mark.slow
def test_resumes_from_every_event(
    tmp_path: Path, recording: Recording, whole: tuple[bytes, SearchState], no_fsync: None
) -> None:
    raw, state = whole
    for cut in [0, *ends_of(raw)]:
        assert_resumes(tmp_path, recording, raw, cut, state)


@pytest.mark.slow
def test_resumes_from_every_byte_of_the_last_kilobytes(
    tmp_path: Path, recording: Recording, whole: tuple[bytes, SearchState], no_fsync: None
) -> None:
    raw, state = whole
    for cut in range(len(raw) - 3072, len(raw)):
        assert_resumes(tmp_path, recording, raw, cut, state)


def test_resumes_from_bytes_around_the_last_events(
    tmp_path: Path, recording: Recording, whole: tuple[bytes, SearchState], no_fsync: None
) -> None:
    raw, state = whole
    for cut in random.Random(2).sample(range(len(raw) - 4096, len(raw)), 8):
        assert_resumes(tmp_path, recording, raw, cut, state)


RUN = """
import sys
from pathlib import Path
from benchmark.event_log import read_search
from harness.search.recording import recording_of
from tests.harness.search.test_replay import SPECULATIVE, replay
recording = recording_of([read_search(Path(sys.argv[1]))])
print(replay(SPECULATIVE, recording, Path(sys.argv[2])).completed)
"""


def start(root: Path, recording_folder: Path, folder: Path) -> subprocess.Popen[str]:
    line = [sys.executable, "-c", RUN, str(recording_folder / FILE_NAME), str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.Popen(line, cwd=root, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_thirty_kills_lose_nothing(
    tmp_path: Path, root: Path, recording_folder: Path, whole: tuple[bytes, SearchState]
) -> None:
    rng = random.Random(4)
    folder = tmp_path / "killed"
    log = folder / FILE_NAME
    grown = 0
    for kill in range(30):
        process = start(root, recording_folder, folder)
        # Killed at a random moment after the log begins to grow, so that kills fall into the search.
        until, before = time.monotonic() + 60, log.stat().st_size if log.exists() else 0
        while process.poll() is None and time.monotonic() < until:
            if (log.stat().st_size if log.exists() else 0) != before:
                time.sleep(rng.uniform(0, 0.01))
                break
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        grown += (log.stat().st_size if log.exists() else 0) > before
        assert kill or grown
    process = start(root, recording_folder, folder)
    assert process.communicate()[0].strip() == "budget"
    state = fold(read_events(log))
    assert state == whole[1]
    assert state.measured == 24
    assert grown >= 3


def test_the_tables_of_a_wheel_are_enough(
    tmp_path: Path, synthetic_dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = synthetic_dataset.name
    task = next(
        log.task["name"] for p in find_logs(synthetic_dataset / "raw") if (log := read_search(p)).split == "test"
    )
    logs = load_recording(name, task, "test")
    bare = tmp_path / "data" / name
    shutil.copytree(synthetic_dataset, bare, ignore=shutil.ignore_patterns("raw", "measurements", "events"))
    monkeypatch.setenv("KERNELCAST_DATA", str(bare.parent))
    tables = load_recording(name, task, "test")
    assert tables.seeds == logs.seeds
    assert set(tables.measurements) <= set(logs.measurements)
    both = [(m, logs.measurements[k]) for k, m in tables.measurements.items()]
    assert both and all(a.compile_s == b.compile_s for a, b in both)
    config = SearchConfig("t", task, "test", tuple(tables.seeds), 12, children_per_parent=3)
    assert replay(config, tables, tmp_path / "out").measured > len(tables.seeds)


@pytest.mark.parametrize(
    ("task", "split", "message"),
    [
        ("softmax", "test", "dataset 'h200-v0' has no task 'softmax'; it has: cross_entropy, fp8_quant, rms_norm"),
        ("rms_norm", "tests", "dataset 'h200-v0' has no search of task 'rms_norm' in split 'tests'"),
    ],
)
def test_what_is_not_recorded_is_named(task: str, split: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_recording("h200-v0", task, split)


def test_other_children_are_another_search(tmp_path: Path, recording: Recording) -> None:
    replay(SPECULATIVE, recording, tmp_path)
    fewer = replace(recording, children=dict(list(recording.children.items())[:2]))
    with pytest.raises(ValueError, match="another configuration: mutator is 'recorded:"):
        replay(SPECULATIVE, fewer, tmp_path)
