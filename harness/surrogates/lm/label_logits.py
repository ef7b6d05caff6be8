"""Bin probabilities from one forward pass: the logits of the eight labels at the place where the answer begins.

Prompts are token sequences, and what two of them begin with need not be run twice: the keys and values of the common
part are kept, and only what follows runs on top of them. The sequences are the same with and without, so the logits
are too, up to rounding. There are three ways:

    read        whole sequences in batches; nothing is reused
    read_after  the part that the candidates of one anchor share runs once, their own parts in batches on top of it
    read_chain  one sequence after another, in sorted order; each runs only what it does not share with the one before

The last runs the fewest tokens, and suits a CPU, where a batch gains nothing. In a batch, sequences of different length
are padded on the right: under a causal mask nothing that is read can see the padding, so that no mask is needed.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmark.bins import Floats

Tokens = Sequence[int]
LEAST_COMMON = 32


@dataclass(frozen=True)
class Reading:
    """What one pass says: the eight label logits, and the mass that the labels have among all tokens."""

    logits: Floats
    label_mass: float

    @property
    def probabilities(self) -> Floats:
        """The softmax over the eight labels alone."""
        odds = np.exp(self.logits - self.logits.max())
        return np.asarray(odds / odds.sum())


@dataclass
class Prefix:
    """The keys and values of a token sequence, computed once."""

    tokens: tuple[int, ...]
    cache: Any


class LabelReader:
    """Reads label logits from a model; keeps the prefix that it used last."""

    def __init__(self, model: Any, labels: Sequence[int], tokens_per_batch: int) -> None:
        """Read the logits of the token ids `labels`; a batch, padding and prefix included, holds `tokens_per_batch`."""
        self._model = model
        self._labels = list(labels)
        self._tokens_per_batch = tokens_per_batch
        self._prefix: Prefix | None = None
        # transformers renamed it; the old name is still taken by most models of older versions.
        takes = inspect.signature(model.forward).parameters
        self._cache_argument = "cache" if "cache" in takes else "past_key_values"

    def read(self, sequences: Sequence[Tokens]) -> list[Reading]:
        """Return the readings after whole sequences, with nothing reused."""
        return self._batched(sequences, None)

    def read_after(self, shared: Tokens, own: Sequence[Tokens]) -> list[Reading]:
        """Return the readings after `shared` followed by each of `own`, running `shared` once."""
        return self._batched(own, self._prefix_of(shared))

    def read_chain(self, sequences: Sequence[Tokens]) -> list[Reading]:
        """Return the readings after whole sequences, each continued from what it shares with the one run before."""
        readings: list[Reading | None] = [None] * len(sequences)
        for i in sorted(range(len(sequences)), key=lambda i: tuple(sequences[i])):
            output = self._run_on(sequences[i])
            readings[i] = self._reading(output.logits[0, 0])
        return [reading for reading in readings if reading is not None]

    def _prefix_of(self, shared: Tokens) -> Prefix:
        if self._prefix is None or self._prefix.tokens != tuple(shared):
            self._run_on(shared)
        assert self._prefix is not None
        return self._prefix

    def _run_on(self, tokens: Tokens) -> Any:
        """Run a sequence from where it parts with the one kept, keep it in its place, and return the last output."""
        common = self._common(tokens)
        self._prefix = None  # the pass extends the cache that it is given: if it is interrupted, there is none
        rest = tokens[len(common.tokens) :] if common else tokens
        output = self._forward([rest], common.cache if common else None, keep=[len(rest) - 1])
        self._prefix = Prefix(tuple(tokens), _cache_of(output))
        return output

    def _common(self, tokens: Tokens) -> Prefix | None:
        """Return the kept prefix cut to what `tokens` begins with, but for its last token; None if too little."""
        if self._prefix is None or not getattr(self._prefix.cache, "is_croppable", False):
            return None
        kept, cache = self._prefix.tokens, self._prefix.cache
        most = min(len(kept), len(tokens) - 1)
        n = next((i for i in range(most) if kept[i] != tokens[i]), most)
        if n < LEAST_COMMON:
            return None
        if n < len(kept):
            cache.crop(n - len(kept))  # a negative length is how many to take off the end, in all versions
        return Prefix(kept[:n], cache)

    def _batched(self, sequences: Sequence[Tokens], prefix: Prefix | None) -> list[Reading]:
        readings: list[Reading | None] = [None] * len(sequences)
        before = len(prefix.tokens) if prefix else 0
        for batch in batches([len(s) for s in sequences], before, self._tokens_per_batch):
            for i, reading in zip(batch, self._read_batch([sequences[i] for i in batch], prefix), strict=True):
                readings[i] = reading
        return [reading for reading in readings if reading is not None]

    def _read_batch(self, sequences: Sequence[Tokens], prefix: Prefix | None) -> list[Reading]:
        last = [len(s) - 1 for s in sequences]
        keep = sorted(set(last))
        cache = None
        if prefix is not None:
            cache = copy.deepcopy(prefix.cache)
            cache.batch_repeat_interleave(len(sequences))
        logits = self._forward(sequences, cache, keep).logits
        return [self._reading(logits[row, keep.index(position)]) for row, position in enumerate(last)]

    def _reading(self, scores: Any) -> Reading:
        scores = scores.float()
        label = scores[self._labels]
        mass = (label.logsumexp(0) - scores.logsumexp(0)).exp()
        return Reading(label.double().cpu().numpy(), min(float(mass), 1.0))

    def _forward(self, sequences: Sequence[Tokens], cache: Any, keep: Sequence[int]) -> Any:
        """Run sequences on top of a cache, which is extended by them; the logits are those at the positions `keep`."""
        import torch

        device = self._model.device
        ids = torch.zeros((len(sequences), max(map(len, sequences))), dtype=torch.long)
        for row, sequence in enumerate(sequences):
            ids[row, : len(sequence)] = torch.tensor(sequence)
        with torch.inference_mode():
            kept = torch.tensor(list(keep), device=device)
            return self._model(ids.to(device), use_cache=True, logits_to_keep=kept, **{self._cache_argument: cache})


def _cache_of(output: Any) -> Any:
    return output["cache"] if "cache" in output else output["past_key_values"]


def batches(lengths: Sequence[int], before: int, tokens_per_batch: int) -> Iterator[list[int]]:
    """Yield the indices of sequences in batches, the longest first, so that little is padded.

    A batch holds as many as fit into `tokens_per_batch` when each takes `before` plus the longest; at least one.
    """
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    start = 0
    while start < len(order):
        each = before + lengths[order[start]]
        size = max(1, tokens_per_batch // each)
        yield order[start : start + size]
        start += size
