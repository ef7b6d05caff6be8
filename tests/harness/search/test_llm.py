"""The language-model mutator against a loopback endpoint: prompts, answers of every kind, retries, cache, tokens."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import tasks
from harness.search.config import SearchConfig, registered_problem
from harness.search.events import FILE_NAME, read_events
from harness.search.mutate import Feedback, Proposal, Rejected
from harness.search.mutate.llm import EndpointError, LlmMutator, open_llm, parse_options
from harness.search.mutate.open import open_mutator
from harness.search.mutate.prompt import ERROR_CHARACTERS, code_block, messages
from harness.search.node import CaseMedian
from harness.search.run import run_search
from tests.harness.search.llm_server import Answer, serve
from tests.harness.search.table_backend import TableBackend

TASK = "rms_norm"
PROBLEM = registered_problem(TASK)
PARENT = tasks.seed_code(TASK, tasks.seed_names(TASK, "train")[0])


def kernel(number: int) -> str:
    return f"import torch\n\n\ndef custom_kernel(data):\n    x, weight = data\n    return x * {number}\n"


def block(number: int) -> Answer:
    return Answer(f"The loads limit it.\n\n```python\n{kernel(number)}```\n")


def propose(
    folder: Path, answers: list[Answer], n: int, **options: str
) -> tuple[list[Proposal | Rejected], list[dict]]:
    with serve(answers) as served, open_llm("m", folder, {"url": served.url, "concurrency": "1", **options}) as maker:
        return maker(PROBLEM).propose(PARENT, random.Random(0), n), served.requests


def test_the_prompt_holds_task_parent_times_and_failures() -> None:
    cases = (CaseMedian("fast", 10.0, 40.0), CaseMedian("slow", 50.0, 25.0))
    feedback = Feedback(cases, (("incorrect", "x" * 5000), ("compile", "")))
    system, user = messages(PROBLEM.description, PARENT, feedback, "NVIDIA H200")
    assert (system["role"], user["role"]) == ("system", "user")
    text = user["content"]
    assert PROBLEM.description["statement"] in text and PARENT.strip() in text and "NVIDIA H200" in text
    assert text.index("- slow: 50.00 us, the reference 25.00 us") < text.index("- fast: 10.00 us")
    assert "(compile): no message" in text
    assert len(text.split("(incorrect): ")[1].split("\n")[0]) < ERROR_CHARACTERS + 10
    timed = [c["case_id"] for c in PROBLEM.description["cases"] if c["timing"]]
    assert all(f"- {case}:" in text for case in timed)
    assert "Nothing yet." in messages(PROBLEM.description, PARENT, None, "x")[1]["content"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"```python\n{kernel(1)}```", kernel(1)),
        (f"```\n{kernel(1)}```\nor better\n```py\n{kernel(2)}```", kernel(2)),
        (f"```python\n{kernel(1)}```\n```python\nprint('usage')\n```", kernel(1)),
        (f"```cpp\nvoid f();\n```\n```python\n{kernel(3)}\n\n```", kernel(3)),
        (f"```python\n{kernel(1)}", None),
        (kernel(1), None),
        ("```python\nprint(1)\n```", None),
    ],
)
def test_the_last_code_block_with_the_entry_is_taken(text: str, expected: str | None) -> None:
    assert code_block(text) == expected


def test_answers_become_children_with_their_costs(tmp_path: Path) -> None:
    found, requests = propose(tmp_path, [block(1), block(2)], 2)
    assert [c.code for c in found if isinstance(c, Proposal)] == [kernel(1), kernel(2)]
    for child in found:
        assert isinstance(child, Proposal)
        assert (child.origin, child.operator, child.input_tokens, child.output_tokens) == ("llm", "llm:m", 100, 20)
        assert child.seconds is not None and child.seconds > 0
    assert {r["path"] for r in requests} == {"/v1/chat/completions"}
    assert requests[0]["messages"] == messages(PROBLEM.description, PARENT, None, "NVIDIA H200")
    assert requests[0]["temperature"] == 1.0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(f"```python\n{kernel(1)}```", finish="length"), "truncated"),
        (Answer(""), "empty answer"),
        (Answer(None), "empty answer"),
        (Answer("I cannot."), "no code block"),
        (Answer("```python\ndef custom_kernel(data:\n```"), "not valid Python"),
        (Answer(f"```python\n{PARENT}```"), "the same program as its parent"),
        (Answer(raw=b"<html>busy</html>"), "malformed answer"),
        (Answer(raw=b'{"choices": []}'), "malformed answer"),
        (Answer(raw=b'{"choices": [{"message'), "malformed answer"),
        (Answer(raw=b"[1, 2]"), "malformed answer"),
    ],
)
def test_an_answer_without_a_kernel_is_rejected_with_its_reason(tmp_path: Path, answer: Answer, reason: str) -> None:
    found, requests = propose(tmp_path, [answer], 1)
    (rejected,) = found
    assert isinstance(rejected, Rejected)
    assert rejected.reason.startswith(reason)
    assert len(requests) == 1  # what an answer says is never a reason to ask again
    assert rejected.input_tokens == (None if answer.raw is not None else 100)


def test_only_transport_is_tried_again(tmp_path: Path) -> None:
    busy = Answer(raw=b'{"error": {"message": "busy"}}', status=503)
    found, requests = propose(tmp_path, [busy, busy, block(4)], 1, retries="2")
    assert isinstance(found[0], Proposal) and len(requests) == 3
    with pytest.raises(EndpointError, match=r"status 503: .*busy"):
        propose(tmp_path / "b", [busy], 1, retries="1")
    refused = Answer(raw=b'{"error": {"message": "no such model"}}', status=404)
    with serve([refused]) as served, open_llm("m", tmp_path / "c", {"url": served.url}) as maker:
        with pytest.raises(EndpointError, match=r"status 404: .*no such model"):
            maker(PROBLEM).propose(PARENT, random.Random(0), 1)
        assert len(served.requests) == 1


def test_a_slow_or_absent_endpoint_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match=r"no answer in time \(0.2 s, 0 retries\); the same command continues"):
        propose(tmp_path, [Answer("x", wait_s=1.0)], 1, timeout="0.2", retries="0")
    with serve([block(1)]) as served:
        url = served.url
    with (
        open_llm("m", tmp_path, {"url": url, "retries": "0"}) as maker,
        pytest.raises(EndpointError, match="Connection error"),
    ):
        maker(PROBLEM).propose(PARENT, random.Random(0), 1)


def test_whole_answers_are_kept_and_failures_are_not(tmp_path: Path) -> None:
    broken = Answer(raw=b"<html>busy</html>")
    first, _ = propose(tmp_path, [block(1), broken, Answer("")], 3)
    again, requests = propose(tmp_path, [block(2)], 3)
    assert len(requests) == 1
    assert again[0] == first[0] and again[2] == first[2]
    assert isinstance(again[1], Proposal) and again[1].code == kernel(2)
    kept = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert len(kept) == 3 and all(row["request"]["messages"] and row["answer"]["choices"] for row in kept)
    assert not list(tmp_path.glob("*.partial"))


def test_equal_and_known_kernels_are_no_children(tmp_path: Path) -> None:
    found, _ = propose(tmp_path, [block(1)], 2)
    assert isinstance(found[1], Rejected) and "known already" in found[1].reason
    with serve([block(1)]) as served, open_llm("m", tmp_path / "k", {"url": served.url}) as maker:
        (known,) = maker(PROBLEM).propose(PARENT, random.Random(0), 1, known=lambda code: True)
    assert isinstance(known, Rejected) and known.output_tokens == 20


def test_a_search_counts_tokens_and_resumes_without_asking_again(tmp_path: Path) -> None:
    seeds = tasks.seed_names(TASK, "train")
    config = SearchConfig("s", TASK, "train", seeds, len(seeds) + 5, children_per_parent=2)
    answers = [block(i) if i % 3 else Answer("") for i in range(1, 40)]
    with serve(answers) as served, open_llm("m", tmp_path / "llm", {"url": served.url, "concurrency": "1"}) as maker:
        whole = run_search(config, TableBackend(wait_s=0.0), tmp_path / "a", mutator=maker(PROBLEM))
        asked = len(served.requests)
        assert whole.measured == len(seeds) + 5
        assert whole.costs.proposal_tokens == 120 * asked
        assert whole.costs.rejected + whole.costs.proposals == asked
        events = read_events(tmp_path / "a" / FILE_NAME)
        raw = (tmp_path / "a" / FILE_NAME).read_bytes().splitlines(keepends=True)
        for cut in [i for i, e in enumerate(events) if e["kind"] in ("proposed", "proposal_rejected")][::2]:
            folder = tmp_path / f"cut-{cut}"
            folder.mkdir()
            (folder / FILE_NAME).write_bytes(b"".join(raw[:cut]))
            resumed = run_search(config, TableBackend(wait_s=0.0), folder, mutator=maker(PROBLEM))
            assert (resumed, resumed.costs.proposal_tokens) == (whole, whole.costs.proposal_tokens)
        assert len(served.requests) == asked


def test_a_model_that_never_gives_a_kernel_does_not_run_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_fsync: None
) -> None:
    monkeypatch.setattr("harness.search.run.MOST_BARREN_STEPS", 3)
    seeds = tasks.seed_names(TASK, "train")
    config = SearchConfig("s", TASK, "train", seeds, 99, children_per_parent=1)
    with serve([Answer("no")]) as served, open_llm("m", tmp_path / "llm", {"url": served.url}) as maker:
        state = run_search(config, TableBackend(wait_s=0.0), tmp_path / "a", mutator=maker(PROBLEM))
    assert (state.completed, state.measured) == ("exhausted", len(seeds))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("sauce", "unknown mutator 'sauce'; write source, or llm=MODEL"),
        ("llm=", "unknown mutator 'llm='"),
        ("llm=m?heat=1", "mutator llm has no option 'heat'; its options: url, temperature"),
        ("llm=m?timeout=long", "option 'timeout' of mutator llm is 'long', expected a number"),
        ("llm=m?timeout", "cannot read the options"),
    ],
)
def test_a_wrong_mutator_is_refused(tmp_path: Path, expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=message), open_mutator(expression, tmp_path):
        pass


def test_another_way_of_asking_is_another_mutator(tmp_path: Path) -> None:
    names = set()
    for given in ({}, {"temperature": "0.5"}, {"timeout": "3"}):
        with open_llm("m", tmp_path, given) as maker:
            assert isinstance(maker(PROBLEM), LlmMutator)
            names.add(maker(PROBLEM).name)
    assert len(names) == 2
    assert parse_options("m", {"retries": "7"}).retries == 7
