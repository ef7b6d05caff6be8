"""One request to an OpenAI-compatible endpoint, streamed or whole, and what can go wrong with it in four words.

Refused: asking anything again is of no use (key, model or address are wrong). Throttled and Failed: the same request
may work later. Rejected: this request is at fault, others may work.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from harness.surrogates.foreign import Unavailable
from harness.surrogates.lm.parsing import Call, Said

KEY_VARIABLES = ("KERNELCAST_API_KEY", "OPENAI_API_KEY")
_QUOTA = ("insufficient_quota", "billing_hard_limit_reached")


class EndpointError(RuntimeError):
    """A request got no answer; the message is one line without the key."""


class Throttled(EndpointError):
    """The endpoint asks to wait; `wait_s` is for how long, if it says so."""

    def __init__(self, message: str, wait_s: float | None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


class Failed(EndpointError):
    """The endpoint could not be reached, broke off, or failed on its side; `reached` says whether it was there."""

    def __init__(self, message: str, reached: bool, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.reached, self.wait_s = reached, wait_s


class Rejected(EndpointError):
    """The endpoint does not take this request; `about_tools` says whether it is the tool that it does not take."""

    def __init__(self, message: str, about_tools: bool) -> None:
        super().__init__(message)
        self.about_tools = about_tools


class Misshapen(EndpointError):
    """The endpoint answered, but not with a chat completion."""


@dataclass(frozen=True)
class Reply:
    """An answer, with the tokens that it cost where the endpoint says so."""

    said: Said
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass
class Endpoint:
    """A base URL and a key. The client is made by the first request, so that nothing is needed to write prompts."""

    base_url: str | None = None
    key_variable: str | None = None
    timeout_s: float = 600.0
    _client: Any = field(default=None, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def address(self) -> str:
        """Where requests go, as messages name it."""
        return self.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"

    def ask(self, body: Mapping[str, Any]) -> Reply:
        """Return the answer to one chat-completion request; raises EndpointError of one kind, or Unavailable."""
        with self._lock:
            client = self._client or self._connect()
        import openai

        try:
            if body.get("stream"):
                with client.chat.completions.create(**body) as stream:
                    return assembled(stream)
            return read_completion(client.chat.completions.create(**body))
        except openai.APITimeoutError:
            raise Failed(f"{self.address}: no answer in {self.timeout_s:g} s", reached=True) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            raise Failed(f"{self.address} cannot be reached: {self._line(cause)}", reached=False) from None
        except openai.APIStatusError as error:
            raise self._of_status(error) from None
        except openai.APIResponseValidationError:
            raise Misshapen(f"{self.address} answered, but not with a chat completion") from None
        except openai.APIError as error:  # an error event within a stream
            raise Failed(f"{self.address}: {self._line(error)}", reached=True) from None
        except Failed as error:
            raise Failed(f"{self.address}: {error}", error.reached) from None
        except Misshapen as error:
            raise Misshapen(f"{self.address} {error}") from None
        except ValueError as error:  # the body, or a line of the stream, is no JSON
            problem = f"{self.address} answered, but not with a chat completion ({self._line(error)[:80]})"
            raise Misshapen(problem) from None

    def _connect(self) -> Any:
        try:
            import openai
        except ModuleNotFoundError:
            advice = "pip install -e '.[llm]' -c constraints.txt"
            raise Unavailable(f"an endpoint needs the package openai, which is not installed: {advice}") from None
        # Waiting and asking again are ours, so that they are counted and shared between the threads.
        self._client = openai.OpenAI(base_url=self.address, api_key=self._key(), max_retries=0, timeout=self.timeout_s)
        return self._client

    def _key(self) -> str:
        names = (self.key_variable,) if self.key_variable else KEY_VARIABLES
        key = next((os.environ[name] for name in names if os.environ.get(name)), None)
        if key is None and (self.key_variable or "api.openai.com" in self.address):
            raise Unavailable(f"{self.address} needs a key: set the environment variable {' or '.join(names)}")
        return key or "none"  # a server of one's own takes any

    def _of_status(self, error: Any) -> Exception:
        status, said = error.status_code, self._line(error)
        code = str(getattr(error, "code", "") or "")
        where = f"{self.address} ({status})"
        if status in (401, 403):
            names = self.key_variable or " or ".join(KEY_VARIABLES)
            return Unavailable(f"{where} refuses the key; set {names} to one that it takes: {said}")
        if status == 404:
            return Unavailable(f"{where} does not know the model or the path; check base_url and the model: {said}")
        if status == 402 or code in _QUOTA:
            return Unavailable(f"{where} says that the account is used up: {said}")
        wait_s = retry_after(error.response.headers)
        if status == 429:
            return Throttled(f"{where} throttles: {said}", wait_s)
        if status >= 500 or status in (408, 409, 425):
            return Failed(f"{where} failed: {said}", reached=True, wait_s=wait_s)
        return Rejected(f"{where} does not take the request: {said}", about_tools="tool" in said.lower())

    def _line(self, error: BaseException) -> str:
        """An error's text in one line, without the key, which some endpoints repeat."""
        text = " ".join(str(error).split()) or type(error).__name__
        key = getattr(self._client, "api_key", None)
        if key and key != "none":
            text = text.replace(key, "[key]")
        return text if len(text) <= 300 else text[:300] + "..."


def read_completion(completion: Any) -> Reply:
    """Return the reply in a chat completion. Raises Misshapen for anything else."""
    choices = getattr(completion, "choices", None)
    if not isinstance(choices, list) or not choices or getattr(choices[0], "message", None) is None:
        raise Misshapen("answered, but not with a chat completion")
    message = choices[0].message
    calls = [
        Call(str(call.function.name or ""), _text(call.function.arguments))
        for call in getattr(message, "tool_calls", None) or ()
        if getattr(call, "function", None) is not None
    ]
    said = Said(
        text=_text(getattr(message, "content", None)),
        calls=calls,
        refusal=_text(getattr(message, "refusal", None)),
        finish_reason=_text(getattr(choices[0], "finish_reason", None)),
    )
    return Reply(said, *_usage(completion))


def assembled(stream: Any) -> Reply:
    """Return the reply that the chunks of a stream add up to. Raises Failed if the stream ends before the answer."""
    text, refusal, finish_reason = [], [], ""
    calls: dict[int, list[str]] = {}
    tokens: tuple[int | None, int | None] = (None, None)
    seen = False
    for chunk in stream:
        if getattr(chunk, "usage", None) is not None:
            tokens = _usage(chunk)
        for choice in getattr(chunk, "choices", None) or ():
            delta = getattr(choice, "delta", None)
            if delta is None:
                continue
            seen = True
            text.append(_text(getattr(delta, "content", None)))
            refusal.append(_text(getattr(delta, "refusal", None)))
            for part in getattr(delta, "tool_calls", None) or ():
                _add_part(calls, part)
            finish_reason = _text(getattr(choice, "finish_reason", None)) or finish_reason
    if not seen:
        raise Misshapen("answered, but not with the chunks of a chat completion")
    if not finish_reason:
        raise Failed("the stream broke off before the answer was complete", reached=True)
    found = [Call(name, arguments) for _, (name, arguments) in sorted(calls.items())]
    return Reply(Said("".join(text), found, "".join(refusal), finish_reason), *tokens)


def _add_part(calls: dict[int, list[str]], part: Any) -> None:
    """Add one piece of a tool call; servers that give no index start a new call with a name."""
    function = getattr(part, "function", None)
    name, arguments = _text(getattr(function, "name", None)), _text(getattr(function, "arguments", None))
    index = getattr(part, "index", None)
    if not isinstance(index, int):
        index = len(calls) if name or not calls else max(calls)
    known = calls.setdefault(index, ["", ""])
    known[0] = known[0] or name
    known[1] += arguments


def _usage(value: Any) -> tuple[int | None, int | None]:
    usage = getattr(value, "usage", None)
    counts = (getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
    first, second = (n if isinstance(n, int) and n >= 0 else None for n in counts)
    return first, second


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a response asks to wait: retry-after-ms, or retry-after in seconds or as a date."""
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            return min(max(float(value) * unit, 0.0), 86400.0)
        except ValueError:
            pass
        try:
            until = parsedate_to_datetime(value)
        except ValueError:
            continue
        return max((until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds(), 0.0)
    return None
