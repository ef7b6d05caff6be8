"""Reading a forecast out of what a language model said: one written table of rules, and nothing improved in silence.

| what was said                                                  | what it becomes                                    |
|----------------------------------------------------------------|----------------------------------------------------|
| one call of the tool, or the same call several times           | its arguments are read                             |
| different calls of the tool                                    | unparsed: contradictory                            |
| calls of other tools only                                      | unparsed: another tool                             |
| no call: one JSON object with the keys p1..p8 in the text,     | that object is read; objects without all eight     |
| fenced or not, or the same object several times                | keys and fences of other languages are passed over |
| a call written as text, {"name": .., "arguments": {..}}        | the object under `arguments` or `parameters`       |
| text up to the last </think>                                   | passed over                                        |
| different such objects                                         | unparsed: contradictory                            |
| two objects one after the other in one string `{..}{..}`       | as above: equal is one, different is refused       |
| a key twice in one object                                      | equal values are one; different are contradictory  |
| an object that does not end, or an answer cut by its limit     | unparsed: truncated                                |
| a value that is a number                                       | the number                                         |
| "12%", "12.5 %"                                                | a percentage: divided by 100                       |
| "1/8"                                                          | a fraction                                         |
| "0.125"                                                        | the number that the text writes                    |
| a bool, null, other text, a list, an object                    | unparsed: not a number                             |
| NaN, Infinity, 1e999, a fraction over 0                        | unparsed: not finite                               |
| a negative number                                              | unparsed: negative                                 |
| eight values whose sum is within 2% of 1                       | divided by their sum, the sum kept                 |
| eight values whose sum is within 2% of 100, at least one over 1| percentages: divided by their sum, the sum kept    |
| any other sum                                                  | unparsed: the sum is given                         |
| keys beside p1..p8                                             | passed over, named in the record                   |
| a refusal by the model                                         | refused                                            |
| nothing at all                                                 | unparsed: empty                                    |

What was said is kept beside the forecast, with the rules that were applied, whatever came of it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from harness.surrogates.lm.tool import FIELDS, TOOL_NAME

SUM_TOLERANCE = 0.02  # models round to two digits: eight roundings of half a hundredth are 0.04 at most, 0.01 usually
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_PERCENT = re.compile(rf"\s*({_NUMBER})\s*%\s*")
_FRACTION = re.compile(r"\s*([+-]?\d+)\s*/\s*(\d+)\s*")
_PLAIN = re.compile(rf"\s*({_NUMBER})\s*")
_CUT = re.compile(r"\s*|\.|[eE][+-]?|-|t(r(ue?)?)?|n(u(ll?)?)?|f(a(l(se?)?)?)?")  # what may be left where JSON was cut
_FENCE = re.compile(r"^(`{3,}|~{3,})[ \t]*([\w+-]*)[^\n]*\n(.*?)^\1[`~]*[ \t]*$", re.MULTILINE | re.DOTALL)


class Unreadable(ValueError):
    """What was said is no forecast; the message says why, in the words of the table."""


@dataclass(frozen=True)
class Call:
    """One tool call: the tool's name and its arguments as the text that came."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Said:
    """All that a model said in one answer."""

    text: str = ""
    calls: Sequence[Call] = ()
    refusal: str = ""
    finish_reason: str = ""


@dataclass(frozen=True)
class Parsed:
    """What was made of it: eight probabilities with status `ok`, or a status and the reason."""

    status: str
    probabilities: tuple[float, ...] | None = None
    problem: str = ""
    applied: tuple[str, ...] = ()
    raw_sum: float | None = None


def parse_answer(said: Said) -> Parsed:
    """Return the forecast in an answer, by the table above; never raises."""
    if said.refusal:
        return Parsed("refused", problem="the model refused")
    if said.finish_reason == "content_filter":
        return Parsed("refused", problem="the endpoint's content filter stopped the answer")
    applied: list[str] = []
    try:
        values, extra = _values(said, applied)
        numbers = [_number(field, values[field], applied) for field in FIELDS]
        if extra:
            applied.append("passed over: " + ", ".join(sorted(extra))[:200])
        probabilities, total = _normalised(numbers, applied)
    except Unreadable as error:
        problem = str(error)
        if said.finish_reason == "length" and not problem.startswith("truncated"):
            problem = f"truncated: the answer reached its limit of tokens ({problem})"
        return Parsed("unparsed", problem=problem, applied=tuple(applied))
    return Parsed("ok", probabilities, applied=tuple(dict.fromkeys(applied)), raw_sum=total)


def _values(said: Said, applied: list[str]) -> tuple[dict[str, Any], set[str]]:
    if said.calls:
        ours = [call for call in said.calls if call.name == TOOL_NAME]
        if not ours:
            raise Unreadable(f"another tool: '{said.calls[0].name[:80]}', expected '{TOOL_NAME}'")
        found = [item for call in ours for item in _objects_of_call(call.arguments)]
    else:
        if not said.text.strip():
            raise Unreadable("empty: neither a tool call nor text")
        found = _objects_of_text(said.text.rpartition("</think>")[2])
        applied.append("read from the text")
    if len(found) > 1:
        applied.append(f"{len(found)} equal answers taken as one")
    first = {field: found[0][field] for field in FIELDS}
    if any(not _same(first, {field: other[field] for field in FIELDS}) for other in found[1:]):
        raise Unreadable(f"contradictory: {len(found)} different answers")
    return first, {key for item in found for key in item if key not in FIELDS}


def _objects_of_call(arguments: str) -> list[dict[str, Any]]:
    """The objects in a call's arguments, which may stand one after the other and nothing else beside them."""
    if not arguments.strip():
        raise Unreadable("empty: the tool call has no arguments")
    found, at = [], 0
    while at < len(arguments.rstrip()):
        at += len(arguments[at:]) - len(arguments[at:].lstrip())
        value, at = _decode(arguments, at)
        if not isinstance(value, dict):
            raise Unreadable(f"the arguments are {type(value).__name__}, expected an object with p1 to p8")
        _require_fields(value)
        found.append(value)
    return found


def _objects_of_text(text: str) -> list[dict[str, Any]]:
    """The objects with p1 to p8 in a text, outside fences of other languages."""
    pieces = [text]
    fences = list(_FENCE.finditer(text))
    if fences:
        pieces = [m[3] for m in fences if m[2].lower() in ("", "json", "json5", "jsonc", "javascript", "js")]
        pieces.append(_FENCE.sub("\n", text))
    problems: list[Unreadable] = []
    found = [item for piece in pieces for item in _scan(piece, problems)]
    whole = [item for item in found if all(field in item for field in FIELDS)]
    if whole:
        return whole
    if problems:
        raise problems[0]
    if found:
        _require_fields(found[-1])
    raise Unreadable("no JSON object with p1 to p8")


def _scan(text: str, problems: list[Unreadable]) -> Iterator[dict[str, Any]]:
    """Yield the objects in a text; what begins like a forecast and cannot be read is added to the problems."""
    at = text.find("{")
    while at >= 0:
        try:
            value, end = _decode(text, at)
        except Unreadable as error:
            if re.match(r'\{\s*"p[1-8]"', text[at:]):
                problems.append(error)
            end = at + 1
        else:
            if isinstance(value, dict):
                yield _unwrapped(value)
        at = text.find("{", end)


def _unwrapped(value: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call that was written as text, and any other object as it is."""
    for key in ("arguments", "parameters"):
        if value.get("name") == TOOL_NAME and isinstance(value.get(key), dict):
            inner: dict[str, Any] = value[key]
            return inner
    return value


def _decode(text: str, at: int) -> tuple[Any, int]:
    try:
        value, end = json.JSONDecoder(object_pairs_hook=_object).raw_decode(text, at)
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable("not JSON: nested too deeply") from None
    except json.JSONDecodeError as error:
        if _CUT.fullmatch(text[error.pos :]) or error.msg.startswith("Unterminated"):
            raise Unreadable("truncated: the JSON object does not end") from None
        raise Unreadable(f"not JSON: {error.msg}") from None
    except ValueError:  # an integer with more digits than Python converts
        raise Unreadable("not finite: a number has too many digits") from None
    return value, end


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in FIELDS and key in value and not _same({key: value[key]}, {key: item}):
            raise Unreadable(f"contradictory: {key} is given twice")
        value[key] = item
    return value


def _same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return json.dumps(a, sort_keys=True, default=str) == json.dumps(b, sort_keys=True, default=str)


def _require_fields(value: Mapping[str, Any]) -> None:
    missing = [field for field in FIELDS if field not in value]
    if missing:
        raise Unreadable(f"{missing[0]} is missing")


def _number(field: str, value: Any, applied: list[str]) -> float:
    number = _text_number(field, value, applied) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise Unreadable(f"not a number: {field} is {_short(value)}")
    try:
        number = float(number)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Unreadable(f"not finite: {field} is {_short(value)}")
    if number < 0:
        raise Unreadable(f"negative: {field} is {_short(value)}")
    return number


def _text_number(field: str, text: str, applied: list[str]) -> float | str:
    if len(text) > 64:
        return text
    if match := _PERCENT.fullmatch(text):
        applied.append("percentages as text")
        return float(match[1]) / 100
    if match := _FRACTION.fullmatch(text):
        applied.append("fractions as text")
        return float(Fraction(int(match[1]), int(match[2]))) if int(match[2]) else math.nan
    if match := _PLAIN.fullmatch(text):
        applied.append("numbers as text")
        return float(match[1])
    return math.nan if text.strip().lower().lstrip("+-") in ("nan", "inf", "infinity") else text


def _normalised(numbers: Sequence[float], applied: list[str]) -> tuple[tuple[float, ...], float]:
    total = math.fsum(numbers)
    if abs(total / 100 - 1) <= SUM_TOLERANCE and max(numbers) > 1:
        applied.append("percentages by their sum")
    elif abs(total - 1) > SUM_TOLERANCE:
        raise Unreadable(f"the probabilities sum to {total:.6g}, expected 1 within {SUM_TOLERANCE:g}")
    elif abs(total - 1) > 1e-9:
        applied.append("divided by their sum")
    return tuple(number / total for number in numbers), total


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
