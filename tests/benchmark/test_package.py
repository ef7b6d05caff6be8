from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmark.event_log import LogError, find_logs, read_events
from benchmark.identity import pair_id
from benchmark.integrity import check_dataset
from benchmark.package import package
from benchmark.parquet import read_table
from benchmark.records import RecordError
from benchmark.speedup import estimate_noise, kernel_speedup
from tests.factory import CASES, Recipe, SearchWriter, make_dataset, make_raw, make_search, write_log

REFERENCE_US = 100.0
SEED = Recipe("chunked")


def search(split: str = "train", number: int = 0, style: str = "chunked") -> SearchWriter:
    writer = SearchWriter("row_total", split, number, 0)
    writer.start([f"triton_{style}"], 10)
    return writer


def timed(
    writer: SearchWriter, node: str, us: float, role: str = "candidate", method: str = "graph", n: int = 4
) -> None:
    """Measure a node, with exactly these microseconds on every case, and the reference at REFERENCE_US."""
    writer.measure(node, role=role, status="ok")
    writer.events[-1]["measurement"]["cases"] = [
        {"case_id": case, "method": method, "dropped": 0, "candidate_ns": [us * 1e3] * n,
         "candidate_order": list(range(0, 2 * n, 2)), "reference_ns": [REFERENCE_US * 1e3] * n,
         "reference_order": list(range(1, 2 * n, 2))}
        for case, _, _ in CASES
    ]  # fmt: skip


def step(writer: SearchWriter, number: int, parents: Sequence[str]) -> None:
    writer.add("step_started", step=number, parents=list(parents))


def packed(tmp_path: Path, *writers: SearchWriter) -> dict[str, Any]:
    """Package the searches; return the rows of every table and the manifest."""
    for writer in writers:
        writer.save(tmp_path / "raw")
    manifest = package("hand", tmp_path / "raw", tmp_path / "out")
    result: dict[str, Any] = {"manifest": manifest}
    for relative in manifest["files"]:
        name = relative.split("/")[0]
        result.setdefault(name, []).extend(read_table(tmp_path / "out" / relative, name).to_pylist())
    assert check_dataset(tmp_path / "out") == []
    return result


def dropped(manifest: dict[str, Any], table: str) -> dict[str, int]:
    return {entry["reason"]: entry["rows"] for entry in manifest["dropped"] if entry["table"] == table}


def test_packaging_is_a_pure_function_of_the_logs(tmp_path: Path) -> None:
    first = make_dataset(tmp_path / "a", kernels_per_search=6)
    second = make_dataset(tmp_path / "b", kernels_per_search=6)
    package("synthetic", second / "raw", second, overwrite=True)
    files = sorted(p.relative_to(first) for p in first.rglob("*") if p.is_file())
    assert len(files) > 10
    assert all((first / file).read_bytes() == (second / file).read_bytes() for file in files)


def test_the_manifest_says_what_is_there(synthetic_folder: Path) -> None:
    manifest = json.loads((synthetic_folder / "manifest.json").read_text())
    present = {str(p.relative_to(synthetic_folder)) for p in synthetic_folder.rglob("*.parquet")}
    assert present == set(manifest["files"])
    for relative, entry in manifest["files"].items():
        data = (synthetic_folder / relative).read_bytes()
        assert entry["bytes"] == len(data) and entry["sha256"] == hashlib.sha256(data).hexdigest()
        assert entry["rows"] == pq.read_metadata(synthetic_folder / relative).num_rows
    assert manifest["splits"]["seeds"]["row_total"] == {
        "triton_chunked": "train", "triton_guarded": "train", "triton_hoisted": "test", "triton_paired": "test",
        "triton_walking": "validation",
    }  # fmt: skip
    assert check_dataset(synthetic_folder) == []


def test_nothing_is_overwritten_unasked_and_old_tables_do_not_stay(tmp_path: Path) -> None:
    folder = make_dataset(tmp_path, kernels_per_search=4)
    with pytest.raises(FileExistsError, match="holds a packaged dataset"):
        package("synthetic", folder / "raw", folder)
    for log in (folder / "raw").glob("*-validation-*"):
        shutil.rmtree(log)
    package("synthetic", folder / "raw", folder, overwrite=True)
    assert not list(folder.rglob("validation-*.parquet")) and check_dataset(folder) == []


def test_a_kernel_speedup_follows_from_the_measurements(synthetic_folder: Path) -> None:
    kernels = [r for s in ("train", "test") for r in read_split(synthetic_folder, "kernels", s).to_pylist()]
    table = read_split(synthetic_folder, "measurements", "all")
    samples: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for row in table.to_pylist():
        key = (row["kernel_id"], row["case_id"], row["side"])
        samples.setdefault(key, {}).setdefault(f"{row['session_id']}/{row['process']}", []).append(row["time_ns"])
    task_of = {
        row["kernel_id"]: row["task"]
        for path in (synthetic_folder / "kernels").glob("*.parquet")
        for row in read_table(path, "kernels", ["kernel_id", "task"]).to_pylist()
    }
    noise = estimate_noise(
        (kernel, task_of[kernel], case, {p: np.array(x) for p, x in processes.items()})
        for (kernel, case, side), processes in samples.items()
        if side == "candidate"
    )
    checked = 0
    for row in kernels:
        if row["status"] == "ok":
            cases = [
                (c, *(list(samples[row["kernel_id"], c, s].values()) for s in ("candidate", "reference")))
                for c, _, _ in CASES
            ]
            found = kernel_speedup(cases, noise, row["task"])
            assert row["speedup"] == pytest.approx(found.speedup, rel=1e-12)
            assert row["speedup_low"] == pytest.approx(found.low, rel=1e-9)
            assert row["n_processes"] == len(samples[row["kernel_id"], "small", "candidate"])
            checked += 1
    assert checked > 50


def test_launch_bound_cases_are_in_no_speedup_and_counted(tmp_path: Path) -> None:
    writer = search()
    writer.events[-1]["session"]["empty_kernel_ns"] = {"graph": 4_000.0}
    seed = writer.propose(SEED, None, 0)
    timed(writer, seed, 50.0)
    cases = writer.events[-1]["measurement"]["cases"]
    cases[0] |= {"candidate_ns": [4_100.0] * 4, "reference_ns": [8_200.0] * 4}
    step(writer, 1, [seed])
    small = writer.propose(Recipe("chunked", block=512), seed, 1, "widen", "constants")
    timed(writer, small, 4.0)
    for case in writer.events[-1]["measurement"]["cases"]:
        case["reference_ns"] = [5_000.0] * 4
    found = packed(tmp_path, writer)
    rows = {row["kernel_id"]: row for row in found["kernels"]}
    ids = {event["node_id"]: event["kernel_id"] for event in writer.events if event["kind"] == "measured"}
    assert rows[ids[seed]]["speedup"] == pytest.approx(2.0) and rows[ids[seed]]["time_us_geomean"] == pytest.approx(
        50.0
    )
    assert rows[ids[small]]["status"] == "ok" and rows[ids[small]]["speedup"] is None
    assert {(row["kernel_id"], row["case_id"]) for row in found["measurements"]} == {(ids[seed], CASES[1][0])}
    reason = "launch-bound: both sides take less than 3 times an empty kernel"
    assert dropped(found["manifest"], "measurements") == {reason: 3 * 8}
    assert dropped(found["manifest"], "pairs") == {"the child has no time": 1}


def read_split(folder: Path, name: str, split: str) -> pa.Table:
    return read_table(folder / name / f"{split}-00000-of-00001.parquet", name)


def test_samples_are_taken_evenly_over_the_recorded_order(tmp_path: Path) -> None:
    writer = search()
    node = writer.propose(SEED, None, 0)
    timed(writer, node, 50.0, n=63)
    case = writer.events[-1]["measurement"]["cases"][0]
    case["candidate_ns"] = [float(1000 + i) for i in range(63)]
    case["candidate_order"] = list(range(62, -1, -1))  # the log lists them backwards
    found = packed(tmp_path, writer)
    rows = [r for r in found["measurements"] if r["case_id"] == "small" and r["side"] == "candidate"]
    assert [r["order"] for r in rows] == list(range(0, 63, 2)) and [r["repetition"] for r in rows] == list(range(32))
    assert [r["time_ns"] for r in rows] == [1062.0 - r["order"] for r in rows]
    assert dropped(found["manifest"], "measurements") == {"beyond 32 samples of a process, case and side": 31 * 4}


def pair_search(
    anchor: Callable[[SearchWriter, str], None] | None = None, first_us: float = 100.0
) -> tuple[SearchWriter, str, str]:
    """A seed, and a child of 40 us measured after the seed was measured again by `anchor`."""
    writer = search()
    seed = writer.propose(SEED, None, 0)
    timed(writer, seed, first_us)
    step(writer, 1, [seed])
    child = writer.propose(Recipe("chunked", block=512), seed, 1, "scale_block", "constants")
    if anchor:
        anchor(writer, seed)
    timed(writer, child, 40.0)
    return writer, seed, child


def test_a_pair_uses_the_parent_time_of_its_own_step(tmp_path: Path) -> None:
    writer, seed, _ = pair_search(lambda w, s: timed(w, s, 80.0, role="anchor"))
    step(writer, 2, [seed])
    timed(writer, seed, 20.0, role="anchor")  # of another step
    (pair,) = packed(tmp_path, writer)["pairs"]
    assert pair["speedup"] == pytest.approx(2.0) and pair["parent_us_geomean"] == pytest.approx(80.0)
    assert pair["pair_id"] == pair_id(writer.search_id, pair["parent_id"], pair["child_id"])
    assert (pair["operator"], pair["operator_class"]) == ("scale_block", "constants")
    assert pair["frontier"] is True and pair["undo"] is False


@pytest.mark.parametrize(
    "anchor", [None, lambda w, s: w.measure(s, role="anchor", status="timeout")], ids=["no anchor", "failed anchor"]
)
def test_without_an_anchor_time_the_parent_keeps_its_first(tmp_path: Path, anchor: Any) -> None:
    writer, _, _ = pair_search(anchor)
    (pair,) = packed(tmp_path, writer)["pairs"]
    assert pair["speedup"] == pytest.approx(2.5)


def test_a_tau_inside_the_interval_is_unresolved(tmp_path: Path) -> None:
    writer, _, _ = pair_search(lambda w, s: timed(w, s, 50.0, role="anchor"), first_us=50.0)
    for event in writer.events:
        if event["kind"] == "measured":
            for case in event["measurement"]["cases"]:
                middle = case["candidate_ns"][0]
                case["candidate_ns"] = [middle * f for f in (0.97, 0.99, 1.01, 1.03)]
    (pair,) = packed(tmp_path, writer)["pairs"]
    assert pair["speedup_low"] < 1.25 < pair["speedup_high"]
    assert not pair["resolved_125"] and pair["resolved_110"] and pair["resolved_200"] and pair["changed"]


def test_a_failed_child_is_a_row_without_a_speedup(tmp_path: Path) -> None:
    writer, seed, _ = pair_search()
    child = writer.propose(Recipe("chunked", warps=16), seed, 1, "set_warps", "constants")
    writer.measure(child, status="incorrect")
    found = packed(tmp_path, writer)
    (pair,) = [p for p in found["pairs"] if p["child_status"] == "incorrect"]
    for column in ("speedup", "speedup_low", "speedup_high", "bin", "resolved_141", "changed", "frontier"):
        assert pair[column] is None
    (kernel,) = [k for k in found["kernels"] if k["kernel_id"] == pair["child_id"]]
    assert kernel["error"] == "incorrect: synthetic" and kernel["speedup"] is None and kernel["timing_method"] is None


def test_frontier_and_undo(tmp_path: Path) -> None:
    writer, _seed, child = pair_search()
    step(writer, 2, [child])
    slower = writer.propose(Recipe("chunked", block=64), child, 2, "scale_block", "constants")
    timed(writer, slower, 60.0)
    back = writer.propose(SEED, child, 2, "scale_block", "constants", code=SEED.source("row_total") + "# again\n")
    timed(writer, back, 30.0)
    found = packed(tmp_path, writer)
    ids = {node["node_id"]: node["kernel_id"] for node in found["nodes"]}
    by_child = {pair["child_id"]: pair for pair in found["pairs"]}
    assert [by_child[ids[n]]["frontier"] for n in (child, slower, back)] == [True, False, True]
    assert [by_child[ids[n]]["undo"] for n in (child, slower, back)] == [False, False, True]


def test_a_child_that_compiles_to_its_parent_is_noise_not_a_pair(tmp_path: Path) -> None:
    writer, seed, _ = pair_search()
    same = writer.propose(SEED, seed, 1, "reword", "host", code=SEED.source("row_total") + "# again\n")
    timed(writer, same, 99.0)
    found = packed(tmp_path, writer)
    assert len(found["pairs"]) == 1 and len(found["kernels"]) == 3
    (again,) = found["same_program"]
    assert again["speedup"] == pytest.approx(100 / 99) and again["operator"] == "reword" and again["undo"] is False
    assert again["pair_id"] not in {pair["pair_id"] for pair in found["pairs"]}


def test_an_edit_of_the_host_code_alone_makes_a_pair(tmp_path: Path) -> None:
    writer, seed, _ = pair_search()
    code = SEED.source("row_total").replace("torch.empty", "torch.zeros")
    timed(writer, writer.propose(SEED, seed, 1, "output_fill", "host", code=code), 99.0)
    found = packed(tmp_path, writer)
    assert len(found["pairs"]) == 2 and "same_program" not in found


def test_sides_that_were_timed_by_different_methods_are_not_compared(tmp_path: Path) -> None:
    writer, _, _ = pair_search(lambda w, s: timed(w, s, 80.0, role="anchor", method="event"))
    found = packed(tmp_path, writer)
    assert "pairs" not in found
    assert dropped(found["manifest"], "pairs") == {"parent and child share no case timed by the same method": 1}


def test_a_kernel_of_two_searches_is_one_row(tmp_path: Path) -> None:
    first, second = search(number=0), search(number=1)
    for writer, us in ((first, 50.0), (second, 25.0)):
        timed(writer, writer.propose(SEED, None, 0), us)
    found = packed(tmp_path, first, second)
    (kernel,) = found["kernels"]
    assert kernel["n_processes"] == 2 and len(found["nodes"]) == 2
    assert kernel["speedup"] == pytest.approx(REFERENCE_US / np.sqrt(50.0 * 25.0))


def test_the_worst_of_disagreeing_measurements_wins(tmp_path: Path) -> None:
    writer, _, child = pair_search()
    for status in ("timeout", "incorrect"):
        writer.measure(child, role="anchor", status=status)
    found = packed(tmp_path, writer)
    (kernel,) = [k for k in found["kernels"] if k["kernel_id"] == found["pairs"][0]["child_id"]]
    assert kernel["status"] == found["pairs"][0]["child_status"] == "incorrect" and kernel["speedup"] is None
    assert kernel["error"] == "incorrect: synthetic [measurements disagree: 1 ok, 1 timeout, 1 incorrect]"


def test_second_sessions_are_kept_but_make_no_label(tmp_path: Path) -> None:
    first, second = search(number=0), search(number=1)
    second.events[1]["session"]["role"] = "second"
    for writer, us in ((first, 50.0), (second, 25.0)):
        timed(writer, writer.propose(SEED, None, 0), us)
    found = packed(tmp_path, first, second)
    (kernel,) = found["kernels"]
    assert kernel["n_processes"] == 1 and kernel["speedup"] == pytest.approx(2.0)
    assert {row["session_id"] for row in found["measurements"]} == {first.session_id, second.session_id}


@pytest.mark.parametrize(("lower", "upper"), [("train", "test"), ("train", "validation"), ("validation", "test")])
def test_a_structure_stands_on_one_side_only(tmp_path: Path, lower: str, upper: str) -> None:
    low, high = search(lower), search(upper, style="paired")
    seed = low.propose(Recipe("chunked"), None, 0)
    timed(low, seed, 100.0)
    step(low, 1, [seed])
    # The seed of the other side, with other constants.
    leaving = low.propose(Recipe("paired", block=64), seed, 1, "pair", "loop")
    timed(low, leaving, 50.0)
    step(low, 2, [leaving])
    below = low.propose(Recipe("hoisted"), leaving, 2, "hoist", "loop")
    timed(low, below, 25.0)
    timed(high, high.propose(Recipe("paired"), None, 0), 50.0)
    found = packed(tmp_path, low, high)
    assert sorted((k["split"], round(k["time_us_geomean"], 6)) for k in found["kernels"]) == sorted(
        [(lower, 100.0), (lower, 25.0), (upper, 50.0)]
    )
    assert {n["node_id"]: n["parent_node_id"] for n in found["nodes"]} == {
        seed: None, below: None, f"{high.search_id}/0": None
    }  # fmt: skip
    assert "pairs" not in found and len({m["kernel_id"] for m in found["measurements"]}) == 3
    assert dropped(found["manifest"], "kernels") == {f"its structure appears in {upper}": 1}
    assert dropped(found["manifest"], "nodes") == {"its kernel stands in another split": 1}
    assert dropped(found["manifest"], "pairs") == {"its parent or child stands in another split": 2}


def test_a_proposal_that_was_not_measured_is_left_out(tmp_path: Path) -> None:
    writer, seed, _ = pair_search()
    node = writer.propose(Recipe("chunked", warps=1), seed, 1, "set_warps", "constants")
    found = packed(tmp_path, writer)
    assert node not in {n["node_id"] for n in found["nodes"]} and len(found["pairs"]) == 1
    assert dropped(found["manifest"], "nodes") == {"never measured": 1}


def test_events_keep_everything_but_code_and_samples(tmp_path: Path) -> None:
    writer, _, _ = pair_search()
    found = packed(tmp_path, writer)
    assert [e["kind"] for e in found["events"]] == [e["kind"] for e in writer.events]
    for event, row in zip(writer.events, found["events"], strict=True):
        payload = json.loads(row["payload"])
        if event["kind"] == "proposed":
            assert payload == {k: v for k, v in event.items() if k not in ("index", "kind", "code")}
        if event["kind"] == "measured":
            assert payload["measurement"] == {k: v for k, v in event["measurement"].items() if k != "cases"}
    assert "tl.load" not in "".join(row["payload"] for row in found["events"])


@pytest.mark.parametrize("compress", [True, False])
def test_a_torn_last_line_is_dropped_and_counted(tmp_path: Path, compress: bool) -> None:
    writer = make_search("row_total", "train", kernels=4)
    path = writer.save(tmp_path / "raw", compress)
    data = gzip.decompress(path.read_bytes()) if compress else path.read_bytes()
    data = data[:-25]
    path.write_bytes(gzip.compress(data) if compress else data)
    events, torn = read_events(path)
    assert torn and len(events) == len(writer.events) - 1
    manifest = package("torn", tmp_path / "raw", tmp_path / "out")
    assert [log["torn_tail"] for log in manifest["logs"]] == [True]
    assert (
        not make_search("row_total", "train", kernels=4).save(tmp_path / "raw2", compress).read_bytes().endswith(b"}")
    )


def damage(kind: str, events: list[dict[str, Any]]) -> None:
    measured = next(e for e in events if e["kind"] == "measured")
    proposed = next(e for e in events if e["kind"] == "proposed")
    record = measured["measurement"]
    if kind == "gap":
        del events[5]
    elif kind == "field":
        del record["status"]
    elif kind == "code":
        proposed["code"] += "\n"
    elif kind == "node":
        measured["node_id"] = "row_total-train-0/99"
    elif kind == "parent":
        proposed["parent_node_id"] = "elsewhere/0"
    elif kind == "session":
        record["session_id"] = "another"
    elif kind == "failed":
        record["status"] = "timeout"
    elif kind == "zero":
        record["cases"][0]["candidate_ns"][3] = 0.0
    elif kind == "lengths":
        record["cases"][0]["reference_order"].pop()
    elif kind == "schema":
        events[0]["schema"] = 2
    elif kind == "start":
        events[0]["kind"] = "search_begun"
    elif kind == "type":
        events[1]["session"] = "s"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("gap", "line 6: index is 6, expected 5"),
        ("field", "has no field 'status'"),
        ("code", "but the code has 'k-"),
        ("node", "node_id 'row_total-train-0/99' is not a node"),
        ("parent", "parent_node_id 'elsewhere/0' is not a node"),
        ("session", "session_id 'another' was not started in this log"),
        ("failed", "status is 'timeout', so 'cases' must be empty"),
        ("zero", "case 'small' has a candidate_ns that is not finite and positive"),
        ("lengths", "case 'small' has 40 reference_ns and 39 reference_order"),
        ("schema", "line 1: schema is 2, expected 1"),
        ("start", "line 1: the first event must be 'search_started'"),
        ("type", "line 2: event 'session_started' has a field of a wrong type"),
    ],
)
def test_a_broken_event_is_named_by_file_and_line(tmp_path: Path, kind: str, expected: str) -> None:
    events = make_search("row_total", "train", kernels=3).events
    damage(kind, events)
    path = write_log(tmp_path / "raw" / "s", events)
    with pytest.raises(LogError) as caught:
        package("broken", tmp_path / "raw", tmp_path / "out")
    message = str(caught.value)
    assert message.startswith(f"{path}, line ") and expected in message and "\n" not in message
    assert not (tmp_path / "out").exists()


def test_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"no event log; expected SEARCH_ID/events.jsonl.gz"):
        package("none", tmp_path / "absent", tmp_path / "out")
    path = make_search("row_total", "train", kernels=3).save(tmp_path / "raw")
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    with pytest.raises(LogError, match=r"events.jsonl.gz: cannot be read whole"):
        read_events(path)
    path.write_bytes(b"plain text")
    with pytest.raises(LogError, match=r"events.jsonl.gz: cannot be read whole"):
        read_events(path)
    lines = gzip.decompress(whole).split(b"\n")
    path.write_bytes(gzip.compress(b"\n".join([*lines[:3], lines[3][:30], *lines[4:]])))
    with pytest.raises(LogError, match=r"line 4: expected a JSON object"):
        read_events(path)
    path.with_name("events.jsonl").write_bytes(b"")
    with pytest.raises(LogError, match=r"holds both events.jsonl and events.jsonl.gz"):
        package("both", tmp_path / "raw", tmp_path / "out")


def test_searches_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    writers = [search("train", 0), search("test", 0), search("train", 1)]
    for writer in writers:
        timed(writer, writer.propose(SEED, None, 0), 50.0)
    for writer in writers[:2]:
        writer.save(tmp_path / "split")
    with pytest.raises(LogError, match=r"seed 'triton_chunked' is in split '\w+', but another search has it in"):
        package("split", tmp_path / "split", tmp_path / "out")
    write_log(tmp_path / "twice" / "a", writers[0].events)
    write_log(tmp_path / "twice" / "b", writers[0].events)
    with pytest.raises(LogError, match="search_id 'row_total-train-0' is that of"):
        package("twice", tmp_path / "twice", tmp_path / "out")
    writers[2].events[0]["task"]["statement"] = "Another."
    for writer in (writers[0], writers[2]):
        writer.save(tmp_path / "task")
    with pytest.raises(LogError, match="task 'row_total' differs in 'statement'"):
        package("task", tmp_path / "task", tmp_path / "out")


@pytest.fixture
def damaged(synthetic_folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(synthetic_folder, tmp_path / "d")
    return tmp_path / "d"


def rewrite(folder: Path, relative: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a table behind the back of every check, and make the manifest agree with the new file."""
    path = folder / relative
    table = pq.read_table(path)
    table = change(table).replace_schema_metadata(table.schema.metadata)
    pq.write_table(table, path)
    manifest = json.loads((folder / "manifest.json").read_text())
    data = path.read_bytes()
    manifest["files"][relative] |= {
        "rows": table.num_rows, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))


def put(column: str, row: int, value: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        values = table.column(column).to_pylist()
        values[row] = value
        field = table.schema.field(column)
        return table.set_column(table.column_names.index(column), field, pa.array(values, field.type))

    return change


KERNELS, PAIRS, NODES = (f"{name}/test-00000-of-00001.parquet" for name in ("kernels", "pairs", "nodes"))
SAMPLES = "measurements/all-00000-of-00001.parquet"


@pytest.mark.parametrize(
    ("relative", "change", "expected"),
    [
        (
            PAIRS,
            put("parent_id", 3, "k-0"),
            "row 3, field 'parent_id': found 'k-0', expected a kernel_id of table kernels",
        ),
        (PAIRS, put("parent_us_geomean", 2, -1.0), "row 2, field 'parent_us_geomean': found -1.0"),
        (PAIRS, lambda t: t.drop_columns(["undo"]), "column 'undo' is missing"),
        (KERNELS, put("kernel_id", 4, "k-1"), "row 4, field 'kernel_id': found 'k-1', expected 'k-"),
        (KERNELS, put("code_view", 4, "x"), "the code_view of that kernel"),
        (KERNELS, lambda t: pa.concat_tables([t, t.slice(5, 1)]), "field 'kernel_id'"),
        (KERNELS, put("split", 1, "train"), "row 1, field 'split': found 'train', expected 'test'"),
        (KERNELS, put("task", 1, "gone"), "row 1, field 'task': found 'gone', expected a task of table tasks"),
        (
            KERNELS,
            lambda t: t.set_column(t.column_names.index("bin"), "bin", t.column("bin").cast(pa.float64())),
            "field 'bin' has type double, expected int64",
        ),
        (NODES, put("parent_node_id", 9, "n"), "row 9, field 'parent_node_id': found 'n', expected a node_id"),
        (SAMPLES, put("kernel_id", 77, "k-2"), "row 77, field 'kernel_id': found 'k-2', expected a kernel_id"),
        (SAMPLES, put("time_ns", 7, 0.0), "row 7, field 'time_ns': found 0.0, expected a finite, positive number"),
    ],
)
def test_validate_names_file_row_and_field(damaged: Path, relative: str, change: Any, expected: str) -> None:
    rewrite(damaged, relative, change)
    problems = check_dataset(damaged)
    assert any(str(damaged / relative) in problem and expected in problem for problem in problems) or any(
        expected in problem for problem in problems if "code_view" in expected
    )


def test_validate_finds_a_speedup_on_a_failed_row(damaged: Path) -> None:
    statuses = pq.read_table(damaged / PAIRS).column("child_status")
    row = pc.index(pc.not_equal(statuses, "ok"), True).as_py()
    rewrite(damaged, PAIRS, put("speedup", row, 1.5))
    (problem,) = check_dataset(damaged)
    assert problem.startswith(f"{damaged / PAIRS}, row {row}, field 'speedup': found 1.5, expected null")


def test_validate_finds_files_that_are_cut_changed_missing_or_added(damaged: Path) -> None:
    (damaged / KERNELS).write_bytes((damaged / KERNELS).read_bytes()[:-30])
    (damaged / PAIRS).unlink()
    shutil.copyfile(damaged / NODES, damaged / "nodes" / "extra.parquet")
    samples = (damaged / SAMPLES).read_bytes()
    (damaged / SAMPLES).write_bytes(samples[:400] + bytes([samples[400] ^ 1]) + samples[401:])
    (damaged / "README.md").write_text("other")
    problems = [p for p in check_dataset(damaged) if SAMPLES not in p or "sha256" in p]
    for expected in (
        f"{KERNELS}: not a whole Parquet file", f"{KERNELS}: was cut: it holds", f"{PAIRS}: is in the manifest, but",
        "extra.parquet: is not in the manifest", f"{SAMPLES}: sha256 is", "README.md: was cut",
    ):  # fmt: skip
        assert sum(expected in problem for problem in problems) == 1, expected
    # What refers into a table that could not be read proves nothing, so it is not reported.
    assert len(problems) == 6
    (damaged / "manifest.json").write_text("{")
    with pytest.raises(RecordError, match="not the manifest of a packaged dataset"):
        check_dataset(damaged)


def test_searches_say_how_they_were_run(tmp_path: Path) -> None:
    plain, tree = search(number=0), search(number=1)
    tree.events[0]["config"] |= {"arm": "random", "selection": "uniform", "budget": 1000}
    for writer in (plain, tree):
        timed(writer, writer.propose(SEED, None, 0), 50.0)
        writer.add("search_completed", reason="budget")
    rows = packed(tmp_path, plain, tree)["searches"]
    assert [(row["arm"], row["replay_tree"], row["ended"]) for row in rows] == [
        ("gpu-only", False, "budget"), ("random", True, "budget")
    ]  # fmt: skip
    assert rows[0]["seeds"] == "triton_chunked" and rows[0]["measured"] == 1 and rows[0]["budget"] == 10


def test_a_log_compressed_with_xz_is_the_same_log(tmp_path: Path) -> None:
    path = make_search("row_total", "train", kernels=3).save(tmp_path / "raw")
    events, torn = read_events(path)
    packed = lzma.compress(gzip.decompress(path.read_bytes()))
    path.unlink()
    path.with_name("events.jsonl.xz").write_bytes(packed)
    assert find_logs(tmp_path / "raw") == [path.with_name("events.jsonl.xz")]
    assert read_events(path.with_name("events.jsonl.xz")) == (events, torn)
    path.with_name("events.jsonl.xz").write_bytes(packed[:-20])
    with pytest.raises(LogError, match=r"events.jsonl.xz: cannot be read whole"):
        read_events(path.with_name("events.jsonl.xz"))


def test_raw_logs_come_compressed_and_plain(tmp_path: Path) -> None:
    raw = make_raw(tmp_path, kernels_per_search=3)
    assert {p.name for p in raw.rglob("*") if p.is_file()} == {"events.jsonl", "events.jsonl.gz"}
