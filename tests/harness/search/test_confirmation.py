"""Strict confirmation: which kernels, what it costs, resuming, what is reported, and what a dataset makes of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

import tasks
from benchmark.event_log import LogError as DataLogError
from benchmark.event_log import read_search
from benchmark.package import package
from benchmark.parquet import read_table
from harness.cli import main
from harness.measure.result import Measurement
from harness.search.campaign import Outcome, load_campaign
from harness.search.config import SearchConfig
from harness.search.confirmation import confirmation_rows, to_confirm
from harness.search.events import FILE_NAME, LogError, read_events
from harness.search.launch import describe, row
from harness.search.report import confirmations, find_runs, rows_of
from harness.search.run import run_search
from harness.search.state import SearchState, fold
from tests.harness.search.table_backend import NumberingMutator, TableBackend, outcome

SEEDS = tasks.seed_names("rms_norm", "train")
MUTATOR = NumberingMutator(5, 3)
CONFIG = SearchConfig("rms_norm-train-0", "rms_norm", "train", SEEDS, 24, children_per_parent=4)
ROW = {
    "role": "primary", "sandbox": "full", "timing_method": "event", "gpu": "table", "driver": "0", "cuda": "0",
    "torch": "0", "triton": "0", "harness_version": "0", "started_at": "2026-01-01T00:00:00Z",
}  # fmt: skip
Change = Callable[[Measurement], Measurement]


class SharedTable(TableBackend):
    """The table at two isolation levels; `strict` says how the outcome of a kernel changes in that level."""

    def __init__(self, strict: Change = lambda m: m, order: int = 0, strict_limit: float = math.inf) -> None:
        super().__init__(order)
        self.session |= {**ROW, "isolation": "shared", "session_id": f"shared-{order}"}
        self.strict, self.strict_limit, self.confirmed = strict, strict_limit, list[str]()
        self._numbers = count()

    def session_rows(self) -> list[dict[str, object]]:
        return [self.session, self.session | {"isolation": "strict", "session_id": f"strict-{self.order}"}]

    @property
    def order(self) -> str:
        return str(self.session["session_id"]).removeprefix("shared-")

    def submit(
        self, task: str, code: str, language: str | None = None, isolation: str | None = None
    ) -> Future[Measurement]:
        level = isolation or "shared"
        found = replace(
            outcome(task, code), isolation=level, session_id=f"{level}-{self.order}", process=next(self._numbers)
        )
        if level == "strict":
            if len(self.confirmed) >= self.strict_limit:
                raise OSError("the table is closed")
            self.confirmed.append(code)
            found = self.strict(found)
        else:
            self.submitted[code] += 1
        future: Future[Measurement] = Future()
        future.set_result(replace(found, measured_at="2026-01-01T00:00:00Z"))
        return future


def fastest(state: SearchState, number: int) -> list[str]:
    nodes = [node for node in state.nodes.values() if node.value is not None]
    return [node.kernel_id for node in sorted(nodes, key=lambda node: -(node.value or 0.0))[:number]]


def slower(factor: float, kernel_id: str) -> Change:
    def change(found: Measurement) -> Measurement:
        if found.kernel_id != kernel_id:
            return found
        cases = tuple(replace(c, candidate_ns=tuple(factor * ns for ns in c.candidate_ns)) for c in found.cases)
        return replace(found, cases=cases)

    return change


def failing(*kernel_ids: str) -> Change:
    def change(found: Measurement) -> Measurement:
        if found.kernel_id not in kernel_ids:
            return found
        return replace(found, status="incorrect", error="only there", cases=())

    return change


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, SearchState, SharedTable]:
    """The log of a whole search that confirms the same times, its last state, and its backend."""
    folder, backend = tmp_path_factory.mktemp("whole"), SharedTable()
    state = run_search(CONFIG, backend, folder, mutator=MUTATOR)
    return (folder / FILE_NAME).read_bytes(), state, backend


def test_the_three_fastest_are_measured_in_strict_beside_the_budget(
    first: tuple[bytes, SearchState, SharedTable],
) -> None:
    raw, state, backend = first
    events = [json.loads(line) for line in raw.splitlines()]
    assert [e["kind"] for e in events[-4:]] == ["confirmed"] * 3 + ["search_completed"]
    assert {e["kernel_id"] for e in events[-4:-1]} == set(fastest(state, 3))
    assert {e["measurement"]["isolation"] for e in events[-4:-1]} == {"strict"}
    assert (state.measured, state.completed, len(backend.confirmed)) == (24, "budget", 3)
    assert sum(backend.submitted.values()) == 24 + len(state.anchors)
    assert events[0]["config"]["confirmations"] == 3
    best = state.best()
    assert best is not None and best.kernel_id == fastest(state, 1)[0]
    assert (best.reported, best.reported_isolation) == (best.value, "strict")


def test_it_resumes_from_every_event_and_confirms_nothing_twice(
    tmp_path: Path, first: tuple[bytes, SearchState, SharedTable], no_fsync: None
) -> None:
    raw, state, _ = first
    ends = [i + 1 for i, byte in enumerate(raw) if byte == ord("\n")]
    for order, cut in enumerate([*ends[::7], *ends[-5:], ends[-2] - 40, ends[-1] - 20], 1):
        folder, backend = tmp_path / str(cut), SharedTable(order=order)
        folder.mkdir()
        (folder / FILE_NAME).write_bytes(raw[:cut])
        known = fold(read_events(folder / FILE_NAME)).nodes.values()
        assert run_search(CONFIG, backend, folder, mutator=MUTATOR) == state, cut
        assert fold(read_events(folder / FILE_NAME)) == state
        assert not {node.code for node in known if node.confirmation} & set(backend.confirmed)


def test_an_error_or_a_stop_in_between_leaves_the_rest_for_later(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the table is closed"):
        run_search(CONFIG, SharedTable(strict_limit=1), tmp_path, mutator=MUTATOR)
    state = fold(read_events(tmp_path / FILE_NAME))
    assert not state.finished and len(confirmation_rows(state)) == 1
    once, backend = [False, True], SharedTable(order=1)
    state = run_search(CONFIG, backend, tmp_path, mutator=MUTATOR, stop=lambda: once.pop(0) if once else True)
    assert (state.completed, backend.confirmed) == ("interrupted", [])
    backend = SharedTable(order=2)
    state = run_search(CONFIG, backend, tmp_path, mutator=MUTATOR)
    assert (state.completed, len(backend.confirmed), len(confirmation_rows(state))) == ("budget", 2, 3)


def test_a_kernel_that_fails_in_strict_is_not_the_best(
    tmp_path: Path, first: tuple[bytes, SearchState, SharedTable]
) -> None:
    one, two, three, four = fastest(first[1], 4)
    state = run_search(CONFIG, SharedTable(failing(one)), tmp_path / "a", mutator=MUTATOR)
    best = state.best()
    assert best is not None and best.kernel_id == two
    assert [r["verdict"] for r in confirmation_rows(state)] == ["failed: incorrect", "confirmed", "confirmed"]
    (run,) = find_runs([tmp_path / "a"])
    assert run.best == best.value and run.peak == best.value
    (found,) = rows_of([run])
    assert found["best_speedup"] == pytest.approx(2 ** (best.value or 0.0)) and found["best_isolation"] == "strict"
    line = describe(Outcome("s", "budget", state))
    assert f"3 measured again in strict, {one} failed: incorrect" in line and two not in line
    # Where none is confirmed, the best of the others is named, at the level that it was measured at.
    state = run_search(CONFIG, SharedTable(failing(one, two, three)), tmp_path / "b", mutator=MUTATOR)
    best = state.best()
    assert best is not None and (best.kernel_id, best.reported_isolation) == (four, "shared")


def test_what_is_slower_in_strict_is_reported_so(tmp_path: Path, first: tuple[bytes, SearchState, SharedTable]) -> None:
    one, two, _ = fastest(first[1], 3)
    values = {node.kernel_id: node.value or 0.0 for node in first[1].nodes.values()}
    state = run_search(CONFIG, SharedTable(slower(1.02, one)), tmp_path / "same", mutator=MUTATOR)
    assert {r["verdict"] for r in confirmation_rows(state)} == {"confirmed"}
    state = run_search(CONFIG, SharedTable(slower(8.0, one)), tmp_path / "slow", mutator=MUTATOR)
    best = state.best()
    assert best is not None and best.kernel_id == two
    (run,) = find_runs([tmp_path / "slow"])
    told = confirmations([run])[0]
    assert (told["kernel_id"], told["verdict"]) == (one, "differs")
    assert told["time_change"] == pytest.approx(7.0)
    assert told["strict_us"] == pytest.approx(8 * told["shared_us"])
    assert told["strict_speedup"] == pytest.approx(2 ** values[one] / 8)
    assert (run.best, run.peak) == (values[two], values[one])
    assert row(Outcome("s", "budget", state))["best_speedup"] == pytest.approx(2 ** values[two])


def test_the_report_shows_what_was_confirmed(
    tmp_path: Path, first: tuple[bytes, SearchState, SharedTable], capsys: pytest.CaptureFixture[str]
) -> None:
    one, two, _ = fastest(first[1], 3)
    both = [slower(1.05, two), failing(one)]
    run_search(CONFIG, SharedTable(lambda m: both[0](both[1](m))), tmp_path / "logs", mutator=MUTATOR)

    def report(*more: object) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["search", "report", *map(str, (tmp_path / "logs", *more))])
        assert ended.value.code in (0, None)
        return capsys.readouterr().out

    printed = [line.split() for line in report("--out", tmp_path / "page", "--quiet").splitlines()]
    (failed,) = [line for line in printed if one in line]
    assert failed[-2:] == ["failed:", "incorrect"]
    (moved,) = [line for line in printed if two in line]
    assert moved[-2:] == ["+5.0%", "differs"]
    page = (tmp_path / "page" / "report.html").read_text(encoding="utf-8")
    assert "<h2>Confirmations in strict</h2>" in page and "failed: incorrect" in page
    told = json.loads(report("--json"))
    assert [row["verdict"] for row in told["confirmations"]] == ["failed: incorrect", "differs", "confirmed"]
    assert told["rows"][0]["best_isolation"] == "strict"


def test_a_kernel_that_a_lane_gave_to_strict_needs_no_confirmation(
    first: tuple[bytes, SearchState, SharedTable],
) -> None:
    state = fold(json.loads(line) for line in first[0].splitlines() if b'"confirmed"' not in line)
    one, two, three, four = fastest(state, 4)
    by_kernel = {node.kernel_id: node for node in state.nodes.values()}
    state.nodes[by_kernel[one].node_id] = replace(by_kernel[one], isolation="strict")
    assert [node.kernel_id for node in to_confirm(state, 3)] == [two, three, four]
    assert to_confirm(state, 0) == []


@pytest.mark.parametrize("session", [{"isolation": "strict"}, {"timing_method": "none"}])
def test_searches_in_strict_or_without_times_are_as_before(tmp_path: Path, session: dict[str, str]) -> None:
    backend = SharedTable()
    backend.session |= session
    state = run_search(CONFIG, backend, tmp_path, mutator=MUTATOR)
    assert backend.confirmed == [] and confirmation_rows(state) == []
    assert "confirmations" not in state.config
    # A log that knows no confirmations is the same one, whatever the configuration says about them.
    assert run_search(replace(CONFIG, confirmations=9), backend, tmp_path, mutator=MUTATOR) == state


def test_another_number_is_another_configuration(tmp_path: Path, first: tuple[bytes, SearchState, SharedTable]) -> None:
    (tmp_path / FILE_NAME).write_bytes(first[0])
    with pytest.raises(LogError, match="confirmations is 3 in the log and 2 now"):
        run_search(replace(CONFIG, confirmations=2), SharedTable(), tmp_path, mutator=MUTATOR)
    state = run_search(replace(CONFIG, confirmations=0), SharedTable(), tmp_path / "none", mutator=MUTATOR)
    assert confirmation_rows(state) == [] and "confirmations" not in state.config
    best = state.best()
    assert best is not None and best.reported_isolation == "shared"


def test_a_campaign_says_how_many(tmp_path: Path) -> None:
    path, text = tmp_path / "grid.toml", 'tasks = ["rms_norm"]\n[splits.train]\nsearches = 1\nbudget = 9\n'
    path.write_text(text, encoding="utf-8")
    assert [config.confirmations for config in load_campaign(path)] == [3]
    path.write_text(text + "[search]\nconfirmations = 5\n", encoding="utf-8")
    assert [config.confirmations for config in load_campaign(path)] == [5]
    for given, expected in (
        ("-1", "-1, expected at least 0"),
        ("1.5", "1.5, expected an"),
        ('"3"', "'3', expected an"),
    ):
        path.write_text(text + f"[search]\nconfirmations = {given}\n", encoding="utf-8")
        with pytest.raises(ValueError, match=f"grid.toml: .*confirmations is {expected}"):
            load_campaign(path)


def test_a_dataset_has_both_levels_of_a_confirmed_kernel(
    tmp_path: Path, first: tuple[bytes, SearchState, SharedTable]
) -> None:
    one, two, three = fastest(first[1], 3)
    folder = tmp_path / "raw" / CONFIG.search_id
    run_search(CONFIG, SharedTable(failing(two)), folder, mutator=MUTATOR)
    roles = [event.role for event in read_search(folder / FILE_NAME).measured]
    assert roles.count("candidate") == 24 and roles[-3:] == ["confirmation"] * 3
    manifest = package("confirmed", tmp_path / "raw", tmp_path / "out")
    tables: dict[str, list[dict[str, object]]] = {"measurements": [], "kernels": [], "sessions": [], "events": []}
    for file in manifest["files"]:
        if (name := file.split("/")[0]) in tables:
            tables[name] += read_table(tmp_path / "out" / file, name).to_pylist()
    level = {r["session_id"]: r["isolation"] for r in tables["sessions"]}
    strict = {r["kernel_id"] for r in tables["measurements"] if level[r["session_id"]] == "strict"}
    assert strict == {one, three}
    kernels = {r["kernel_id"]: r for r in tables["kernels"]}
    assert kernels[one]["n_processes"] == 2 + sum(
        event.role == "anchor" and event.kernel_id == one for event in read_search(folder / FILE_NAME).measured
    )
    # What works in shared only does not work.
    assert kernels[two]["status"] == "incorrect" and kernels[two]["speedup"] is None
    told = [json.loads(str(r["payload"])) for r in tables["events"] if r["kind"] == "confirmed"]
    assert len(told) == 3 and all("cases" not in r["measurement"] for r in told)


def test_a_confirmation_of_an_unknown_kernel_is_refused(
    tmp_path: Path, first: tuple[bytes, SearchState, SharedTable]
) -> None:
    path = tmp_path / FILE_NAME
    events = [json.loads(line) for line in first[0].splitlines()]
    events[-2]["node_id"] = "elsewhere/0"
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    with pytest.raises(DataLogError, match=rf"line {len(events) - 1}: node_id 'elsewhere/0' is not a node"):
        read_search(path)
