"""A language model behind an OpenAI-compatible endpoint: a tool call with eight probabilities, or the same as JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmark.query import Forecast, Query
from harness.surrogates.answer_log import Told
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.lm.account import Account, Price
from harness.surrogates.lm.endpoint import Endpoint, EndpointError, Rejected, Reply
from harness.surrogates.lm.parsing import Parsed, parse_answer
from harness.surrogates.lm.patience import Patience
from harness.surrogates.lm.prompt import DEFAULT, load_prompt
from harness.surrogates.lm.tool import TOOL_NAME, tool_definition

ANSWERS = ("auto", "tool", "json")
LONGEST_KEPT = 32_768  # characters of one text: an answer that runs wild is kept shortened, and the run goes on


class RemoteModel:
    """A language model behind an OpenAI-compatible endpoint.

    `answer` is how it is to reply: `tool` (a forced tool call), `json` (no tool is offered), or `auto` (the tool, and
    JSON from the first time on that the endpoint does not take one). An unparsed answer is asked for again
    `parse_retries` times; transport is retried apart from that. Prices are dollars for a million tokens.
    """

    information = "source"
    batch = 1
    training_data = "not stated"

    def __init__(
        self,
        source: str,
        *,
        base_url: str | None = None,
        key_variable: str | None = None,
        prompt: str = DEFAULT,
        answer: str = "auto",
        stream: bool = False,
        concurrency: int = 8,
        temperature: float | None = None,
        max_tokens: int | None = None,
        max_completion_tokens: int | None = None,
        reasoning_effort: str | None = None,
        parse_retries: int = 0,
        retries: int = 4,
        timeout_s: float = 240.0,
        patience_s: float = 300.0,
        input_usd: float | None = None,
        output_usd: float | None = None,
    ) -> None:
        """Name the model `source` and how to ask it; nothing is sent. Raises SurrogateError for a wrong option."""
        if answer not in ANSWERS:
            raise SurrogateError(f"answer '{answer}' is unknown; expected {', '.join(ANSWERS)}")
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise SurrogateError(f"base_url '{base_url}' is no address; expected one such as http://localhost:8000/v1")
        for name, value in {"concurrency": concurrency, "parse_retries": parse_retries, "retries": retries}.items():
            if not isinstance(value, int) or isinstance(value, bool):
                raise SurrogateError(f"{name} '{value}' is no whole number")
        for name, number in {"timeout_s": timeout_s, "patience_s": patience_s, "temperature": temperature}.items():
            if number is not None and (not isinstance(number, int | float) or isinstance(number, bool)):
                raise SurrogateError(f"{name} '{number}' is no number")
        if concurrency < 1 or parse_retries < 0 or retries < 0:
            raise SurrogateError("concurrency is at least 1, and the numbers of retries are at least 0")
        self.model, self.concurrency = source, concurrency
        self._prompt = load_prompt(prompt)
        self._with_tool, self._may_drop_tool = answer != "json", answer == "auto"
        self._stream, self._parse_retries = stream, parse_retries
        settings = {
            "temperature": temperature,
            "max_tokens": max_tokens,
            "max_completion_tokens": max_completion_tokens,
            "reasoning_effort": reasoning_effort,
        }
        self._settings = {name: value for name, value in settings.items() if value is not None}
        self._endpoint = Endpoint(base_url, key_variable, timeout_s)
        self._patience = Patience(retries, patience_s)
        self._account = Account(Price(input_usd, output_usd))

    @property
    def details(self) -> dict[str, Any]:
        """What the answers depend on beside the options: the prompt's files."""
        return {"prompt": f"{self._prompt.name}@{self._prompt.digest}"}

    @property
    def fingerprint(self) -> str:
        """The details as text: answers that were given under other ones are not taken for this model's."""
        return json.dumps(self.details, sort_keys=True)

    @property
    def cost(self) -> dict[str, Any]:
        """What was asked so far: replies, tokens, price, and how often the endpoint was asked again."""
        asked_again = {"transport_retries": self._patience.retried, "throttled": self._patience.throttled}
        return {**self._account.summary(), **asked_again}

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Return a forecast for each query, with all that was said as raw output.

        Raises Unavailable if the endpoint is down, refuses the key or throttles for too long, and EndpointError if a
        single query is asked and gets no answer.
        """
        if len(queries) == 1:
            return [self._ask(queries[0])]
        answers = []
        for query in queries:
            try:
                answers.append(self._ask(query))
            except EndpointError as error:
                answers.append(Told(None, status="error", raw=str(error)))
        return answers

    def body(self, query: Query, with_tool: bool = True) -> dict[str, Any]:
        """Return the request for a query as the protocol has it, without what concerns transport."""
        body: dict[str, Any] = {"model": self.model, "messages": self._prompt.fill(query, "tool").messages()}
        if with_tool and self._with_tool:
            body["tools"] = [tool_definition()]
            body["tool_choice"] = {"type": "function", "function": {"name": TOOL_NAME}}
        return {**body, **self._settings}

    def _ask(self, query: Query) -> Told:
        start = time.monotonic()
        replies: list[tuple[Reply, Parsed]] = []
        while not replies or (replies[-1][1].status == "unparsed" and len(replies) <= self._parse_retries):
            reply = self._reply(query)
            parsed = parse_answer(reply.said)
            self._account.add(reply, unparsed=parsed.status == "unparsed", again=bool(replies))
            replies.append((reply, parsed))
        return told(replies, time.monotonic() - start)

    def _reply(self, query: Query) -> Reply:
        with_tool = self._with_tool
        try:
            return self._patience.ask(lambda: self._endpoint.ask(self._request(query, with_tool)))
        except Rejected as error:
            if not (with_tool and self._may_drop_tool and error.about_tools):
                raise
        # Another thread may have found the same at the same time; the outcome is one.
        self._with_tool = False
        return self._patience.ask(lambda: self._endpoint.ask(self._request(query, False)))

    def _request(self, query: Query, with_tool: bool) -> dict[str, Any]:
        streamed = {"stream": True, "stream_options": {"include_usage": True}} if self._stream else {}
        return {**self.body(query, with_tool), **streamed}


def told(replies: Sequence[tuple[Reply, Parsed]], seconds: float | None) -> Told:
    """Return the forecast of the last reply; its tokens are those of all replies to the query."""
    parsed = replies[-1][1]
    return Told(
        probabilities=parsed.probabilities,
        status=parsed.status,
        seconds=seconds,
        input_tokens=_total([reply.input_tokens for reply, _ in replies]),
        output_tokens=_total([reply.output_tokens for reply, _ in replies]),
        raw=[_record(reply, parsed) for reply, parsed in replies],
    )


def _total(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _record(reply: Reply, parsed: Parsed) -> dict[str, Any]:
    said = reply.said
    record = {
        "text": shortened(said.text),
        "calls": [{"name": shortened(c.name), "arguments": shortened(c.arguments)} for c in said.calls],
        "refusal": shortened(said.refusal),
        "finish_reason": said.finish_reason,
        **{name: value for name, value in asdict(parsed).items() if name not in ("status", "probabilities")},
    }
    return {name: value for name, value in record.items() if value not in ("", None, [], ())}


def shortened(text: str) -> str:
    """Return a text of at most about 32 thousand characters: its beginning, a marker, and its end."""
    if len(text) <= LONGEST_KEPT:
        return text
    half = LONGEST_KEPT // 2
    return f"{text[:half]}[... {len(text) - 2 * half} characters left out ...]{text[-half:]}"
