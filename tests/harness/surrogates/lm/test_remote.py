"""The remote model against a loopback server: what it sends, what it makes of every kind of answer, what it counts."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.surrogates.answer_log import AnswerLog, Told
from harness.surrogates.foreign import SurrogateError, Unavailable
from harness.surrogates.lm.endpoint import EndpointError
from harness.surrogates.lm.remote import LONGEST_KEPT, RemoteModel
from harness.surrogates.lm.tool import TOOL_NAME
from harness.surrogates.run import forecast_all
from harness.surrogates.spec import create, parse

from .conftest import Answer, P, Script, Server, arguments, completion, good, make_query

pytest.importorskip("openai")
Serve = Callable[[Script], Server]
Q = (0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1)


def model(server: Server, **options: Any) -> RemoteModel:
    made = RemoteModel("m", base_url=server.base_url, **{"retries": 0, **options})
    made._patience._first_wait_s = 0.01
    return made


def ask(made: RemoteModel, n: int = 0) -> Told:
    (answer,) = made.forecast([make_query(n)])
    assert isinstance(answer, Told)
    return answer


def test_a_tool_call_becomes_a_forecast_with_its_tokens(serve: Serve) -> None:
    server = serve(lambda n, request: Answer(good()))
    answer = ask(model(server, temperature=0.5, max_tokens=900))
    assert answer.probabilities == pytest.approx(P)
    assert (answer.status, answer.input_tokens, answer.output_tokens) == ("ok", 100, 20)
    assert answer.raw[0]["calls"] == [{"name": TOOL_NAME, "arguments": arguments()}]
    (request,) = server.requests
    assert request["model"] == "m" and (request["temperature"], request["max_tokens"]) == (0.5, 900)
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert request["tool_choice"]["function"]["name"] == request["tools"][0]["function"]["name"] == TOOL_NAME
    assert server.keys == ["Bearer sk-secret-for-tests"]


def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    return json.dumps({
        "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    })  # fmt: skip


def streamed_call(text: str, index: int | None = 0) -> list[str]:
    """A tool call in pieces of seven characters."""
    pieces = [text[i : i + 7] for i in range(0, len(text), 7)]
    where = {} if index is None else {"index": index}
    head = {"tool_calls": [{**where, "id": "a", "type": "function", "function": {"name": TOOL_NAME, "arguments": ""}}]}
    return [chunk({"role": "assistant", **head})] + [
        chunk({"tool_calls": [{**where, "function": {"arguments": piece}}]}) for piece in pieces
    ]


USAGE = json.dumps({
    "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
})  # fmt: skip
END = [chunk({}, "tool_calls"), USAGE, "[DONE]"]


@pytest.mark.parametrize("index", [0, None])
def test_a_streamed_tool_call_is_put_together(serve: Serve, index: int | None) -> None:
    server = serve(lambda n, request: Answer(stream=streamed_call(arguments(), index) + END))
    answer = ask(model(server, stream=True))
    assert answer.probabilities == pytest.approx(P)
    assert (answer.input_tokens, answer.output_tokens) == (7, 3)
    assert server.requests[0]["stream_options"] == {"include_usage": True}


def test_streamed_text_is_put_together(serve: Serve) -> None:
    text = f"```json\n{arguments()}\n```"
    server = serve(lambda n, r: Answer(stream=[chunk({"content": c}) for c in text] + [chunk({}, "stop"), "[DONE]"]))
    answer = ask(model(server, stream=True, answer="json"))
    assert answer.probabilities == pytest.approx(P) and answer.input_tokens is None


def test_a_stream_that_was_written_twice_counts_once_if_it_is_equal(serve: Serve) -> None:
    server = serve(lambda n, request: Answer(stream=streamed_call(arguments() * 2) + END))
    assert ask(model(server, stream=True)).probabilities == pytest.approx(P)


def test_a_stream_that_breaks_off_is_asked_again_and_is_no_answer(serve: Serve) -> None:
    server = serve(
        lambda n, request: Answer(stream=streamed_call(arguments())[: 4 if n == 0 else None] + END * (n > 0))
    )
    made = model(server, stream=True, retries=1)
    assert ask(made).status == "ok"
    assert made.cost["transport_retries"] == 1


def test_an_error_within_a_stream_is_a_failure(serve: Serve) -> None:
    server = serve(lambda n, request: Answer(stream=[json.dumps({"error": {"message": "overloaded"}})]))
    with pytest.raises(EndpointError, match="overloaded"):
        ask(model(server, stream=True))


UNPARSED = [
    ("truncated", completion(calls=[(TOOL_NAME, arguments()[:50])], finish="length"), "truncated"),
    ("empty", completion(), "empty"),
    ("prose", completion("Much faster."), "no JSON object"),
    ("contradictory", completion(calls=[(TOOL_NAME, arguments()), (TOOL_NAME, arguments(Q))]), "contradictory"),
]


@pytest.mark.parametrize(("body", "problem"), [r[1:] for r in UNPARSED], ids=[r[0] for r in UNPARSED])
def test_an_answer_that_cannot_be_read_is_kept_and_not_asked_again(
    serve: Serve, body: dict[str, Any], problem: str
) -> None:
    server = serve(lambda n, request: Answer(body))
    made = model(server)
    answer = ask(made)
    assert (answer.status, answer.probabilities) == ("unparsed", None)
    assert problem in answer.raw[0]["problem"]
    assert len(server.requests) == 1
    assert (made.cost["unparsed"], made.cost["asked_again_after_unparsed"]) == (1, 0)


def test_retries_of_unparsed_answers_are_counted_and_paid(serve: Serve) -> None:
    server = serve(lambda n, request: Answer(good() if n == 2 else completion("Well.")))
    made = model(server, parse_retries=2, input_usd=2.0, output_usd=10.0)
    answer = ask(made)
    assert answer.status == "ok" and len(answer.raw) == 3
    assert (answer.input_tokens, answer.output_tokens) == (300, 60)
    assert made.cost == {
        "replies": 3, "input_tokens": 300, "output_tokens": 60, "replies_without_token_counts": 0, "unparsed": 2,
        "asked_again_after_unparsed": 2, "usd": pytest.approx(0.0012), "transport_retries": 0, "throttled": 0,
    }  # fmt: skip


def test_a_server_that_counts_no_tokens_has_no_price(serve: Serve) -> None:
    server = serve(lambda n, request: Answer(completion(calls=[(TOOL_NAME, arguments())], usage=False)))
    made = model(server)
    assert ask(made).input_tokens is None
    assert made.cost["replies_without_token_counts"] == 1 and made.cost["usd"] is None


def test_a_refusal_is_refused(serve: Serve) -> None:
    body = completion()
    body["choices"][0]["message"]["refusal"] = "I will not."
    answer = ask(model(serve(lambda n, request: Answer(body))))
    assert answer.status == "refused" and answer.raw[0]["refusal"] == "I will not."


def test_an_answer_that_runs_wild_is_kept_shortened(serve: Serve) -> None:
    server = serve(lambda n, request: Answer(completion(calls=[(TOOL_NAME, '{"p1": "' + "x" * 2_000_000)])))
    answer = ask(model(server))
    kept = answer.raw[0]["calls"][0]["arguments"]
    assert answer.status == "unparsed" and len(kept) < LONGEST_KEPT + 100 and "characters left out" in kept


def test_without_tools_the_model_is_asked_for_json(serve: Serve) -> None:
    def script(n: int, request: dict[str, Any]) -> Answer:
        if "tools" in request:
            return Answer({"error": {"message": "tools are not supported by this model"}}, 400)
        return Answer(completion(arguments()))

    server = serve(script)
    made = model(server)
    assert ask(made, 0).status == ask(made, 1).status == "ok"
    assert ["tools" in request for request in server.requests] == [True, False, False]
    with pytest.raises(EndpointError, match="does not take the request"):
        ask(model(server, answer="tool"))


def test_a_request_that_is_too_long_costs_that_query_only(serve: Serve) -> None:
    server = serve(lambda n, r: Answer({"error": {"message": "context too long"}}, 400) if n == 1 else Answer(good()))
    problems: list[str] = []
    answers = forecast_all(
        model(server, concurrency=1), [make_query(n) for n in range(3)], report=lambda _, p: problems.append(p)
    )
    assert [a.status for a in answers] == ["ok", "error", "ok"]
    assert "context too long" in problems[0]


def test_throttling_is_waited_out_as_long_as_the_server_says(serve: Serve) -> None:
    def script(n: int, request: dict[str, Any]) -> Answer:
        return Answer({"error": {"message": "slow down"}}, 429, {"Retry-After": "0.4"}) if n == 0 else Answer(good())

    made = model(serve(script))
    start = time.monotonic()
    assert ask(made).status == "ok"
    assert time.monotonic() - start >= 0.4
    assert made.cost["throttled"] == 1


def test_a_server_error_is_asked_again(serve: Serve) -> None:
    made = model(serve(lambda n, request: Answer({}, 500) if n < 2 else Answer(good())), retries=2)
    assert ask(made).status == "ok"
    assert made.cost["transport_retries"] == 2


def test_slow_answers_are_given_up(serve: Serve) -> None:
    with pytest.raises(EndpointError, match=r"no answer in 0\.2 s"):
        ask(model(serve(lambda n, request: Answer(good(), delay_s=1.0)), timeout_s=0.2))


def closed_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


DOWN = [
    ("key", Answer({"error": {"message": "bad key sk-secret-for-tests"}}, 401), "refuses the key; set KERNELCAST_API_"),
    ("forbidden", Answer({"error": {"message": "no"}}, 403), "refuses the key"),
    ("model", Answer({"error": {"message": "no model m"}}, 404), "does not know the model"),
    ("quota", Answer({"error": {"message": "paid?", "code": "insufficient_quota"}}, 429), "account is used up"),
    ("throttled", Answer({"error": {"message": "slow"}}, 429, {"Retry-After": "9999"}), "throttles"),
]


@pytest.mark.parametrize(("answer", "problem"), [r[1:] for r in DOWN], ids=[r[0] for r in DOWN])
def test_an_endpoint_that_cannot_be_used_ends_the_run_in_one_line(serve: Serve, answer: Answer, problem: str) -> None:
    server = serve(lambda n, request: answer)
    with pytest.raises(Unavailable) as caught:
        ask(model(server))
    assert problem in str(caught.value) and "\n" not in str(caught.value)
    assert "sk-secret" not in str(caught.value)
    assert len(server.requests) == 1


def test_without_the_client_no_query_is_asked(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    server = serve(lambda n, request: good(n))
    with pytest.raises(Unavailable, match="needs the package openai, which is not installed: pip install"):
        forecast_all(model(server), [make_query(n) for n in range(3)])
    assert server.requests == []


def test_a_refused_connection_ends_the_run_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match="cannot be reached") as caught:
        RemoteModel("m", base_url=closed_port(), retries=0).forecast([make_query()])
    assert "\n" not in str(caught.value)


SHAPES = [
    ("a web page", "<html>Welcome</html>"),
    ("no choices", {"id": "x", "object": "chat.completion"}),
    ("empty choices", {"choices": []}),
    ("a list", [1, 2]),
    ("choices of another kind", {"choices": "many"}),
    ("no message", {"choices": [{"index": 0, "text": "old protocol"}]}),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("body", [r[1] for r in SHAPES], ids=[r[0] for r in SHAPES])
def test_an_answer_in_another_shape_is_one_clear_line(serve: Serve, body: Any, stream: bool) -> None:
    lines = [body if isinstance(body, str) else json.dumps(body)]
    made = model(serve(lambda n, request: Answer(body, stream=lines if stream else None)), stream=stream)
    for n in range(2):
        with pytest.raises(EndpointError, match=r"not with a chat completion|not with the chunks|broke off"):
            ask(made, n)
    with pytest.raises(Unavailable):
        ask(made, 2)


def test_a_key_is_needed_where_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KERNELCAST_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Unavailable, match="set the environment variable KERNELCAST_API_KEY or OPENAI_API_KEY"):
        RemoteModel("m").forecast([make_query()])


def test_several_queries_are_asked_at_the_same_time(serve: Serve) -> None:
    server = serve(lambda n, request: Answer(good(), delay_s=0.3))
    start = time.monotonic()
    answers = forecast_all(model(server, concurrency=8), [make_query(n) for n in range(8)])
    assert {a.status for a in answers} == {"ok"}
    assert time.monotonic() - start < 8 * 0.3


def test_a_later_run_asks_only_what_is_missing(serve: Serve, tmp_path: Path) -> None:
    """The endpoint dies after five answers; the second run gets the other seven and asks for nothing twice."""
    dead = [True]

    def script(n: int, request: dict[str, Any]) -> Answer:
        return Answer({"error": {"message": "revoked"}}, 401) if dead[0] and n >= 5 else Answer(good())

    server = serve(script)
    queries = [make_query(n) for n in range(12)]
    with AnswerLog(tmp_path / "log.jsonl", {}) as log, pytest.raises(Unavailable, match="refuses the key"):
        forecast_all(model(server, concurrency=1), queries, log=log)
    dead[0] = False
    asked = len(server.requests)
    with AnswerLog(tmp_path / "log.jsonl", {}) as log:
        answers = forecast_all(model(server), queries, log=log)
    assert {a.status for a in answers} == {"ok"}
    assert len(server.requests) - asked == 7
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert len(lines) == 12 and all(line["raw"][0]["calls"] for line in lines)


def test_the_expression_reaches_the_model() -> None:
    made = create(parse("openai=org/model-1?base_url=http://localhost:1/v1&temperature=0.2&stream=true"))
    assert isinstance(made, RemoteModel)
    body = made.body(make_query())
    assert (body["model"], body["temperature"]) == ("org/model-1", 0.2)
    assert made.details == {"prompt": f"forecast-1@{made._prompt.digest}"}


@pytest.mark.parametrize(
    "options", ["answer=maybe", "base_url=localhost:8000", "concurrency=0", "colour=red", "timeout_s=long"]
)
def test_a_wrong_option_is_one_line(options: str) -> None:
    with pytest.raises(SurrogateError) as caught:
        create(parse(f"openai=m?{options}"))
    assert "\n" not in str(caught.value)
