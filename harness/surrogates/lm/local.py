"""A language model on this machine: bin probabilities from the logits of the labels, or from a generated tool call."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmark.bins import BINS
from benchmark.query import Forecast, Query
from harness.surrogates.answer_log import Told
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.lm.chat_text import chat_text
from harness.surrogates.lm.label_logits import LabelReader, Reading
from harness.surrogates.lm.prompt import DEFAULT, load_prompt
from harness.surrogates.lm.weights import find_gguf, load_weights
from harness.surrogates.lm.window import fit

LEAD = "Bin ("  # what the answer begins with; a digit after a bracket is a token of its own in the usual tokenisers
TOKENS_PER_BATCH = {"cpu": 8192, "cuda": 131072}
READS = ("labels", "tool")
REUSES = ("auto", "none", "anchor", "chain")


@dataclass(frozen=True)
class Prepared:
    """A query as tokens, with what was left out of its codes to fit the window."""

    shared: tuple[int, ...]
    own: tuple[int, ...]
    left_out: Mapping[str, int]


class LocalModel:
    """A language model from weights on disk, asked for the label of the bin.

    `read=labels` takes the softmax of the eight labels' logits after one pass; `read=tool` generates the tool call,
    greedily, and parses it. `reuse` is what of the prompts before is not run again: what the candidates of an `anchor`
    share, all that a prompt shares with the one before (`chain`), or `none`; `auto` is chain on a CPU, else anchor.
    """

    information = "source"
    training_data = "not stated"
    batch = 32

    def __init__(
        self,
        source: str,
        *,
        read: str = "labels",
        prompt: str = DEFAULT,
        device: str = "auto",
        dtype: str = "auto",
        reuse: str = "auto",
        window: int | None = None,
        tokens_per_batch: int | None = None,
        max_new_tokens: int = 512,
    ) -> None:
        """Load the weights that `source` names. Raises SurrogateError for what cannot be loaded or used."""
        if read not in READS:
            raise SurrogateError(f"read '{read}' is unknown; expected {' or '.join(READS)}")
        if reuse not in REUSES:
            raise SurrogateError(f"reuse '{reuse}' is unknown; expected {', '.join(REUSES)}")
        self._read, self._max_new_tokens = read, max_new_tokens
        self._prompt = load_prompt(prompt)
        self._weights = load_weights(self.find(source), device, dtype)
        self._window = min(window or self._weights.window, self._weights.window)
        device = self._weights.device.partition(":")[0]
        self._reuse = {"cpu": "chain", "cuda": "anchor"}[device] if reuse == "auto" else reuse
        limit = tokens_per_batch or TOKENS_PER_BATCH[device]
        self._labels = label_tokens(self._weights.tokenizer) if read == "labels" else []
        self._reader = LabelReader(self._weights.model, self._labels, limit)

    @staticmethod
    def find(source: str) -> Path:
        """Return where the weights are: a folder."""
        return Path(source)

    @property
    def details(self) -> dict[str, Any]:
        """What the answers depend on beside the options: the prompt's files, the weights, where and how they run."""
        return {
            "prompt": f"{self._prompt.name}@{self._prompt.digest}",
            "weights": self._weights.fingerprint,
            "device": self._weights.device.partition(":")[0],
            "dtype": self._weights.dtype,
            "window": self._window,
        }

    @property
    def fingerprint(self) -> str:
        """The details as text: answers that were given under other ones are not taken for this model's."""
        return json.dumps(self.details, sort_keys=True)

    def order_key(self, query: Query) -> str:
        """Queries that begin alike are best asked one after another: what they share is then read once."""
        return f"{query.task}\0{query.anchor_kind}\0{query.anchor_code}\0{query.candidate_code}"

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Return a forecast for each query, with the logits or the generated text as raw output."""
        if self._read == "tool":
            return [self._generate(self.prepare(query)) for query in queries]
        prepared = [self.prepare(query) for query in queries]
        answers: list[Forecast | None] = [None] * len(queries)
        for group in self._groups(prepared):
            start = time.perf_counter()
            readings = self._readings([prepared[i] for i in group])
            seconds = (time.perf_counter() - start) / len(group)
            for i, reading in zip(group, readings, strict=True):
                answers[i] = _told(prepared[i], reading, seconds)
        return [answer for answer in answers if answer is not None]

    def _generate(self, prepared: Prepared) -> Told:
        from harness.surrogates.lm.generate import generate_forecast

        tokens = (*prepared.shared, *prepared.own)
        return generate_forecast(self._weights, tokens, dict(prepared.left_out), self._max_new_tokens)

    def prepare(self, query: Query) -> Prepared:
        """Return a query as tokens. Raises ValueError if the window has no room for code."""
        tokenizer, answer = self._weights.tokenizer, "label" if self._read == "labels" else "tool"
        reserve = 0 if self._read == "labels" else self._max_new_tokens
        empty = self._tokens(replace(query, anchor_code="", candidate_code=""), answer)
        shortened, left_out = fit(query, tokenizer, sum(map(len, empty)) + reserve, self._window)
        shared, own = self._tokens(shortened, answer)
        return Prepared(shared, own, left_out)

    def _tokens(self, query: Query, answer: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        shared, own = chat_text(self._weights.tokenizer, self._prompt.fill(query, answer))
        encode = self._weights.tokenizer.encode
        own += LEAD if answer == "label" else ""
        return tuple(encode(shared, add_special_tokens=False)), tuple(encode(own, add_special_tokens=False))

    def _groups(self, prepared: Sequence[Prepared]) -> list[list[int]]:
        """The indices of the queries that share a prefix, in the order in which a prefix comes first."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, item in enumerate(prepared):
            groups.setdefault(item.shared if self._reuse == "anchor" else (), []).append(i)
        return list(groups.values())

    def _readings(self, group: Sequence[Prepared]) -> list[Reading]:
        if self._reuse == "anchor":
            return self._reader.read_after(group[0].shared, [item.own for item in group])
        whole = [(*item.shared, *item.own) for item in group]
        return self._reader.read_chain(whole) if self._reuse == "chain" else self._reader.read(whole)


class HuggingFace(LocalModel):
    """A language model from a folder of Hugging Face weights."""


class Gguf(LocalModel):
    """A language model from a GGUF file."""

    @staticmethod
    def find(source: str) -> Path:
        """Return the file that a path or a bundled name stands for."""
        return find_gguf(source)


def label_tokens(tokenizer: Any) -> list[int]:
    """Return the token of each label, 1 to 8, where an answer begins. Raises SurrogateError unless each is one."""
    before = tokenizer.encode(LEAD, add_special_tokens=False)
    labels = []
    for b in BINS:
        ids = tokenizer.encode(f"{LEAD}{b}", add_special_tokens=False)
        if ids[:-1] != before:
            raise SurrogateError(f"label '{b}' is not one token of this model's tokeniser; ask with read=tool")
        labels.append(ids[-1])
    return labels


def _told(prepared: Prepared, reading: Reading, seconds: float) -> Told:
    return Told(
        probabilities=tuple(reading.probabilities.tolist()),
        seconds=seconds,
        input_tokens=len(prepared.shared) + len(prepared.own),
        output_tokens=0,
        raw={
            "logits": [round(float(x), 5) for x in reading.logits],
            "label_mass": reading.label_mass,
            "left_out_tokens": dict(prepared.left_out),
        },
    )
