"""Batches: prompts out, answers in by id, children measured by a log that the dataset can read, and resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import harness.search.batch_run as batch_run
import tasks
from benchmark.event_log import read_search
from harness.search.batch import (
    ANSWERS,
    PARENTS,
    PROMPTS,
    BatchError,
    export,
    keep_answers,
    read_answers,
    read_parents,
    searched_parents,
    seed_parents,
)
from harness.search.batch_run import import_batch
from harness.search.config import SearchConfig
from harness.search.events import FILE_NAME, read_events
from harness.search.launch import Options
from harness.search.mutate import Proposal, Rejected
from harness.search.mutate.llm import LlmOptions
from harness.search.run import run_search
from harness.search.state import SearchState, fold
from tests.harness.search.llm_server import Answer, completion
from tests.harness.search.table_backend import NumberingMutator, TableBackend
from tests.harness.search.test_llm import block

TASK = "rms_norm"
OPTIONS = LlmOptions("m", max_tokens=99)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> SearchState:
    seeds = tasks.seed_names(TASK, "train")
    config = SearchConfig(f"{TASK}-train-0", TASK, "train", seeds, 40, children_per_parent=3)
    folder = tmp_path_factory.mktemp("searched")
    return run_search(config, TableBackend(wait_s=0.0), folder, mutator=NumberingMutator(4, 4))


def answer(name: str, said: Answer, status: int = 200) -> dict[str, Any]:
    return {"id": "x", "custom_id": name, "response": {"status_code": status, "body": completion(said)}, "error": None}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def ids_of(folder: Path) -> list[str]:
    return [json.loads(line)["custom_id"] for line in (folder / PROMPTS).read_text().splitlines()]


def test_prompts_are_requests_of_the_batch_format(tmp_path: Path, searched: SearchState) -> None:
    parents = searched_parents(searched, 3, seed=0, fastest=True) + seed_parents(TASK, "train")
    count = export([*parents, parents[0]], 2, OPTIONS, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / PROMPTS).read_text().splitlines()]
    assert len(rows) == count == 2 * len({p.code for p in parents})
    assert len({row["custom_id"] for row in rows}) == count
    for row in rows:
        assert (row["method"], row["url"]) == ("POST", "/v1/chat/completions")
        assert (row["body"]["model"], row["body"]["max_tokens"]) == ("m", 99)
        assert row["body"]["messages"][1]["content"].startswith("# Task\n")
    best = searched.best()
    assert best is not None and best.code.strip() in rows[0]["body"]["messages"][1]["content"]
    assert f"{best.cases[0].candidate_us:.2f} us" in rows[0]["body"]["messages"][1]["content"]
    with pytest.raises(FileExistsError, match="exists already"):
        export(parents, 2, OPTIONS, tmp_path)
    with pytest.raises(ValueError, match="0 parents with 2 children each: nothing to ask"):
        export([], 2, OPTIONS, tmp_path / "none")


def test_parents_of_a_search_are_drawn_or_its_fastest(searched: SearchState) -> None:
    ok = sorted((n.value for n in searched.nodes.values() if n.value is not None), reverse=True)
    fastest = searched_parents(searched, 4, 0, fastest=True)
    codes = {n.code: n.value for n in searched.nodes.values()}
    assert [codes[p.code] for p in fastest] == ok[:4]
    drawn = [tuple(p.code for p in searched_parents(searched, 4, seed, fastest=False)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(p.path[0].operator is None and p.path[0].origin == "seed" for p in fastest)


def test_answers_are_matched_by_id(tmp_path: Path) -> None:
    export(seed_parents(TASK, "train")[:2], 2, OPTIONS, tmp_path)
    ids = ids_of(tmp_path)
    rows = [answer(ids[3], block(3)), answer(ids[0], Answer("no")), answer(ids[1], block(1), status=500)]
    found = read_answers(write(tmp_path / "a.jsonl", rows), read_parents(tmp_path))
    assert set(found) == {ids[3], ids[0], ids[1]}
    assert isinstance(found[ids[3]], Proposal) and found[ids[3]].output_tokens == 20
    assert isinstance(found[ids[0]], Rejected)
    assert found[ids[1]].reason == "no answer: 500"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"custom_id": "r-0"}\n', "line 1: custom_id 'r-0' is not one of this batch"),
        ("ID\nID\n", "line 2: a second answer to custom_id"),
        ("ID\nx\n", "line 2: not JSON"),
        ("[]\n", "line 1: custom_id None is not one of this batch"),
    ],
)
def test_a_wrong_answer_file_is_refused(tmp_path: Path, lines: str, message: str) -> None:
    export(seed_parents(TASK, "train")[:1], 1, OPTIONS, tmp_path)
    path = tmp_path / "a.jsonl"
    path.write_text(lines.replace("ID", json.dumps(answer(ids_of(tmp_path)[0], block(1)))))
    with pytest.raises(BatchError, match=message):
        read_answers(path, read_parents(tmp_path))


def test_a_broken_list_of_parents_is_refused(tmp_path: Path) -> None:
    (tmp_path / PARENTS).write_text('{"path": []}\n')
    with pytest.raises(BatchError, match=r"parents.jsonl, line 1: not a parent of a batch"):
        read_parents(tmp_path)


def test_other_answers_are_not_mixed_in(tmp_path: Path) -> None:
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    first.write_text("a\n")
    second.write_text("b\n")
    assert keep_answers(first, tmp_path) == tmp_path / ANSWERS
    assert keep_answers(first, tmp_path).read_text() == "a\n"
    with pytest.raises(ValueError, match="holds other answers"):
        keep_answers(second, tmp_path)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> list[TableBackend]:
    """The table in the place of a device; the list holds the backends that were opened."""
    opened: list[TableBackend] = []

    @contextmanager
    def table(*_: object) -> Iterator[TableBackend]:
        opened.append(TableBackend(len(opened), fail_after=7 if not opened else None, wait_s=0.0))
        yield opened[-1]

    monkeypatch.setattr(batch_run, "open_live_backend", table)
    return opened


def test_children_are_measured_beside_their_parent_and_a_failure_is_continued(
    tmp_path: Path, searched: SearchState, backend: list[TableBackend]
) -> None:
    folder = tmp_path / "batch"
    parents = searched_parents(searched, 3, seed=0, fastest=True)
    export(parents, 3, OPTIONS, folder)
    ids = ids_of(folder)
    said = [block(i) for i in range(len(ids) - 2)] + [Answer("no"), block(0)]
    answers = write(tmp_path / "answers.jsonl", [answer(i, s) for i, s in zip(ids, said, strict=True)])
    with pytest.raises(OSError, match="the table is closed"):
        import_batch(folder, answers, Options(folder))
    (state,) = import_batch(folder, answers, Options(folder))
    assert state.completed == "budget"
    assert (folder / ANSWERS).read_bytes() == answers.read_bytes()
    path = folder / f"{TASK}-train-llm" / FILE_NAME
    assert fold(read_events(path)) == state
    log = read_search(path)
    children = [n for n in log.nodes.values() if n.origin == "llm"]
    assert len(children) == 7 and state.costs.rejected == 2
    measured = {(e.node_id, e.role) for e in log.measured}
    assert all((n.node_id, "candidate") in measured for n in children)
    assert {n.parent for n in children} == {node for node, role in measured if role == "anchor"}
    assert {log.nodes[n.parent or ""].code for n in children} == {p.code for p in parents}
    candidates = [e.node_id for e in log.measured if e.role == "candidate"]
    assert len(candidates) == len(set(candidates)) == 3 + 7
    before = path.read_bytes()
    assert import_batch(folder, answers, Options(folder)) == [state]
    assert path.read_bytes() == before
    assert len(backend) == 3 and not backend[2].submitted
