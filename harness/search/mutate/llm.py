"""A mutator that asks a language model behind any OpenAI-compatible endpoint; what was answered is kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.search.config import Problem
from harness.search.mutate.prompt import PROMPT_VERSION, child_of, messages
from harness.search.mutate.proposal import Feedback, Proposal, Rejected, nothing_known

KEY_VARIABLE = "OPENAI_API_KEY"


class EndpointError(OSError):
    """The endpoint cannot be used: it is down after all retries, or refuses the request. The search can go on later."""


@dataclass(frozen=True)
class LlmOptions:
    """How a model is asked; `retries` are for transport only, `timeout` is in seconds for one answer."""

    model: str
    url: str = "https://api.openai.com/v1"
    temperature: float = 1.0
    max_tokens: int = 16384
    timeout: float = 600.0
    retries: int = 4
    concurrency: int = 8
    hardware: str = "NVIDIA H200"

    def body(self, prompt: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """Return the body of a chat request."""
        return {
            "model": self.model,
            "messages": list(prompt),
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }


def parse_options(model: str, given: Mapping[str, str]) -> LlmOptions:
    """Return options from text. Raises ValueError for an unknown one or a value that is no number."""
    kinds: dict[str, Any] = {
        name: type(f.default) for name, f in LlmOptions.__dataclass_fields__.items() if name != "model"
    }
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in kinds:
            raise ValueError(f"mutator llm has no option '{name}'; its options: {', '.join(kinds)}")
        try:
            values[name] = kinds[name](text)
        except ValueError:
            raise ValueError(f"option '{name}' of mutator llm is '{text}', expected a number") from None
    return LlmOptions(model, **values)


class Endpoint:
    """Asks for completions, at most once for each distinct question: complete answers are kept in a folder."""

    def __init__(self, options: LlmOptions, folder: Path) -> None:
        try:
            import openai
        except ModuleNotFoundError:
            raise EndpointError(
                "mutator llm needs the package openai; install with: pip install 'kernelcast[llm]'"
            ) from None

        self.options, self._folder = options, folder
        self._openai = openai
        self._client = openai.OpenAI(
            base_url=options.url,
            api_key=os.environ.get(KEY_VARIABLE, "none"),
            timeout=options.timeout,
            max_retries=options.retries,
        )
        folder.mkdir(parents=True, exist_ok=True)

    def complete(self, prompt: Sequence[Mapping[str, str]], sample: int) -> tuple[Mapping[str, Any], float]:
        """Return a chat completion as JSON and the seconds that it took; `sample` tells equal questions apart.

        An answer that is no JSON object comes back as one without choices and is not kept. Raises EndpointError.
        """
        body = self.options.body(prompt)
        key = hashlib.sha256(json.dumps([body, sample], sort_keys=True).encode()).hexdigest()[:24]
        path = self._folder / f"{key}.json"
        if path.is_file():
            kept = json.loads(path.read_text(encoding="utf-8"))
            return kept["answer"], kept["seconds"]
        started = time.monotonic()
        text = self._ask(body)
        seconds = time.monotonic() - started
        try:
            answer = json.loads(text)
        except ValueError:
            return {"choices": []}, seconds
        if not isinstance(answer, dict):
            return {"choices": []}, seconds
        row = {"request": body, "sample": sample, "answer": answer, "seconds": seconds}
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
        partial.replace(path)
        return answer, seconds

    def _ask(self, body: Mapping[str, Any]) -> str:
        errors = self._openai
        try:
            return str(self._client.chat.completions.with_raw_response.create(**body).text)
        except errors.APITimeoutError:
            limit = f"{self.options.timeout:g} s, {self.options.retries} retries"
            raise EndpointError(
                f"{self.options.url}: no answer in time ({limit}); the same command continues"
            ) from None
        except errors.APIConnectionError as error:
            raise EndpointError(
                f"{self.options.url}: {error} ({error.__cause__}); the same command continues"
            ) from None
        except errors.APIStatusError as error:
            raise EndpointError(f"{self.options.url}: status {error.status_code}: {_message(error)}") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _message(error: Any) -> str:
    return " ".join(str(error.message).split())[:300]


class LlmMutator:
    """Asks for a rewrite of the parent, n times at once; answers without a usable kernel are reported as such."""

    may_succeed_later = True

    def __init__(self, endpoint: Endpoint, problem: Problem) -> None:
        self._endpoint, self._problem = endpoint, problem
        asked = {
            k: v for k, v in asdict(endpoint.options).items() if k not in ("url", "timeout", "retries", "concurrency")
        }
        digest = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]
        self.name = f"llm:{endpoint.options.model}:{PROMPT_VERSION}:{digest}"

    def propose(
        self,
        parent_code: str,
        rng: random.Random,
        n: int,
        partners: Sequence[str] = (),
        known: Callable[[str], bool] = nothing_known,
        feedback: Feedback | None = None,
        seed_id: str = "",
    ) -> list[Proposal | Rejected]:
        """Return one child or one rejection for each of n answers. Raises EndpointError."""
        options = self._endpoint.options
        prompt = messages(self._problem.description, parent_code, feedback, options.hardware)
        samples = [rng.getrandbits(48) for _ in range(n)]
        with ThreadPoolExecutor(min(n, options.concurrency)) as pool:
            answers = list(pool.map(lambda sample: self._endpoint.complete(prompt, sample), samples))
        found: list[Proposal | Rejected] = []
        seen: set[str] = set()
        for answer, seconds in answers:
            child = child_of(parent_code, answer, f"llm:{options.model}", seconds)
            if isinstance(child, Proposal) and (child.code in seen or known(child.code)):
                child = Rejected(
                    "a kernel that is known already", child.seconds, child.input_tokens, child.output_tokens
                )
            elif isinstance(child, Proposal):
                seen.add(child.code)
            found.append(child)
        return found


@contextmanager
def open_llm(model: str, folder: Path, given: Mapping[str, str]) -> Iterator[Callable[[Problem], LlmMutator]]:
    """Give a function that makes the mutator of a problem; answers are kept in the folder."""
    endpoint = Endpoint(parse_options(model, given), folder)
    try:
        yield lambda problem: LlmMutator(endpoint, problem)
    finally:
        endpoint.close()
