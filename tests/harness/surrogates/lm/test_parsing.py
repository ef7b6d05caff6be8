"""Every row of the table of rules, by an answer as models give it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.surrogates.lm.parsing import Call, Said, parse_answer
from harness.surrogates.lm.tool import FIELDS, TOOL_NAME

P = (0.05, 0.05, 0.1, 0.3, 0.3, 0.1, 0.05, 0.05)
Q = (0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1)


def obj(p=P, **extra) -> str:  # type: ignore[no-untyped-def]
    return json.dumps({**dict(zip(FIELDS, p, strict=True)), **extra})


def called(*texts: str) -> Said:
    return Said(calls=[Call(TOOL_NAME, text) for text in texts])


def text(value: str, finish: str = "stop") -> Said:
    return Said(text=value, finish_reason=finish)


PERCENT = [f"{100 * p:g}%" for p in P]
RULES = [
    ("one call", called(obj()), P, ""),
    ("the same call twice", called(obj(), obj()), P, "2 equal answers taken as one"),
    ("the same call twice in one string", called(obj() + obj()), P, "2 equal answers taken as one"),
    ("ours beside another tool", Said(calls=[Call("search", "{}"), Call(TOOL_NAME, obj())]), P, ""),
    ("plain JSON", text(obj()), P, "read from the text"),
    ("a fence", text(f"Here it is:\n```json\n{obj()}\n```\n"), P, "read from the text"),
    ("a fence of four backticks", text(f"````\n{obj()}\n````"), P, "read from the text"),
    ("python first, json second", text(f"```python\nx = {{'p1': 1}}\n```\n```json\n{obj()}\n```"), P, ""),
    ("a fence of another language", text(f"```python\n{obj(Q)}\n```\n{obj()}"), P, ""),
    ("prose with braces", text(f"The set {{a, b}} matters. {obj()} That is all {{really}}."), P, ""),
    ("backticks inside a string", text(obj(note="use ``` here")), P, "passed over: note"),
    ("an object that is no forecast first", text('{"thought": "hm"} ' + obj()), P, ""),
    ("a call as text", text(json.dumps({"name": TOOL_NAME, "arguments": json.loads(obj())})), P, ""),
    ("thinking aloud", text(f"<think>maybe {obj(Q)}</think>{obj()}"), P, ""),
    ("the same object twice", text(f"{obj()}\nso:\n{obj()}"), P, "2 equal answers taken as one"),
    ("an equal key twice", called(obj()[:-1] + ', "p1": 0.05}'), P, ""),
    ("percentages as text", called(obj(PERCENT)), P, "percentages as text"),
    ("percentages as numbers", called(obj([100 * p for p in P])), P, "percentages by their sum"),
    ("fractions", called(obj(["1/8"] * 8)), (0.125,) * 8, "fractions as text"),
    ("numbers as text", called(obj([str(p) for p in P])), P, "numbers as text"),
    ("more keys", called(obj(reasoning="it is faster", predicted_bin=5)), P, "passed over: predicted_bin, reasoning"),
    ("integers", called(obj((0, 0, 0, 1, 0, 0, 0, 0))), (0, 0, 0, 1, 0, 0, 0, 0), ""),
]


@pytest.mark.parametrize(("said", "expected", "rule"), [r[1:] for r in RULES], ids=[r[0] for r in RULES])
def test_what_can_be_read(said: Said, expected: tuple[float, ...], rule: str) -> None:
    parsed = parse_answer(said)
    assert parsed.status == "ok", parsed.problem
    assert parsed.probabilities == pytest.approx(expected, abs=1e-12)
    assert not rule or rule in parsed.applied


def test_a_sum_near_one_is_divided_and_kept() -> None:
    parsed = parse_answer(called(obj([p * 1.01 for p in P])))
    assert parsed.probabilities == pytest.approx(P)
    assert parsed.raw_sum == pytest.approx(1.01)
    assert "divided by their sum" in parsed.applied


MISSING = json.dumps({f: 0.125 for f in FIELDS[:7]})
REFUSED = [
    ("nothing", Said(), "empty"),
    ("an empty call", called(""), "empty"),
    ("prose", text("It will be faster."), "no JSON object"),
    ("another tool", Said(calls=[Call("search", obj())]), "another tool: 'search'"),
    ("two different calls", called(obj(), obj(Q)), "contradictory"),
    ("two different objects in one string", called(obj() + obj(Q)), "contradictory"),
    ("two different objects in the text", text(f"{obj()} or rather {obj(Q)}"), "contradictory"),
    ("two different fences", text(f"```json\n{obj()}\n```\n```json\n{obj(Q)}\n```"), "contradictory"),
    ("a key twice", called(obj()[:-1] + ', "p1": 0.5}'), "contradictory: p1 is given twice"),
    ("a call that is cut", called(obj()[:40]), "truncated"),
    ("a call that is cut in a number", called('{"p1": 0.'), "truncated"),
    ("a text that is cut", text('{"p1": 0.1, "p2'), "truncated"),
    ("a text that ran out", text("Let me think about", "length"), "truncated: the answer reached its limit"),
    ("a field is missing", called(MISSING), "p8 is missing"),
    ("a field is missing in the text", text(MISSING), "p8 is missing"),
    ("a list", called("[0.1, 0.9]"), "the arguments are list"),
    ("text after the object", called(obj() + " done"), "not JSON"),
    ("a bool", called(obj((True, *P[1:]))), "not a number: p1 is true"),
    ("null", called(obj((None, *P[1:]))), "not a number: p1 is null"),
    ("words", called(obj(("high", *P[1:]))), 'not a number: p1 is "high"'),
    ("nested", called(obj(({"p": 1}, *P[1:]))), "not a number"),
    ("NaN", called(obj((float("nan"), *P[1:]))), "not finite: p1"),
    ("infinity", called(obj((float("inf"), *P[1:]))), "not finite: p1"),
    ("too large for a float", called(obj().replace("0.05", "1e999", 1)), "not finite: p1"),
    ("an integer beyond any float", called(obj((10**400, *P[1:]))), "not finite: p1"),
    ("an integer beyond all reading", called(obj().replace("0.05", "9" * 5000, 1)), "not finite"),
    ("NaN as text", called(obj(("NaN", *P[1:]))), "not finite: p1"),
    ("a fraction over zero", called(obj(("1/0", *P[1:]))), "not finite: p1"),
    ("negative", called(obj((-0.1, *P[1:]))), "negative: p1"),
    ("all zero", called(obj((0,) * 8)), "sum to 0"),
    ("half", called(obj([p / 2 for p in P])), "sum to 0.5"),
    ("a sum of 1.1", called(obj([p * 1.1 for p in P])), "sum to 1.1"),
    ("deeply nested", called("[" * 100_000), "nested too deeply"),
]


@pytest.mark.parametrize(("said", "problem"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_cannot_be_read_says_why(said: Said, problem: str) -> None:
    parsed = parse_answer(said)
    assert parsed.status == "unparsed"
    assert parsed.probabilities is None
    assert problem in parsed.problem


@pytest.mark.parametrize("said", [Said(refusal="I cannot help"), Said(text=obj(), finish_reason="content_filter")])
def test_a_refusal_is_one_even_if_an_answer_stands_beside_it(said: Said) -> None:
    parsed = parse_answer(said)
    assert (parsed.status, parsed.probabilities) == ("refused", None)


@given(st.text(alphabet='{}[]":,.p12345678 `\n\\eE+-%/0', max_size=200), st.booleans())
def test_no_answer_raises_and_only_distributions_pass(said: str, as_call: bool) -> None:
    parsed = parse_answer(called(said) if as_call else text(said))
    assert parsed.status in ("ok", "unparsed")
    assert (parsed.probabilities is None) == (parsed.status == "unparsed")
    assert parsed.probabilities is None or sum(parsed.probabilities) == pytest.approx(1)
