"""Leak probes: what can be forecast from things that must not tell, such as comments, order, id and anchor count.

A probe learns like any other surrogate and sees nothing of the kernel's code. It belongs at chance; one that does
better has found a leak in the dataset.
"""

from __future__ import annotations

import io
import math
import re
import tokenize
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmark.cuda_source import is_cuda
from benchmark.query import Query
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.linear import Linear
from harness.surrogates.privileged import Raw
from harness.surrogates.tokens import hashed

WORDS = 64  # columns that the words of comments are hashed to
STEPS = 8  # a number from 0 to 1 is seen as the eighth that it falls into, so that no shape is ruled out
_CUDA_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+|\d+(?:\.\d+)?")


class Probe(Linear):
    """A ridge regression on one thing that must not tell: `sees` is comments, order, id or anchors."""

    information = "probe"

    def __init__(self, seed: int = 0, calibrate: str = "temperature", sees: str = "comments") -> None:
        super().__init__(seed, calibrate)
        if sees not in LOOKS:
            raise SurrogateError(f"a probe cannot see '{sees}'; expected one of {', '.join(LOOKS)}")
        self.sees = sees
        self._raw: dict[str, Raw] = {}

    def reveal(self, rows: Sequence[Raw]) -> None:
        """Take what the next queries' rows hold besides the query."""
        self._raw.update((row.query_id, row) for row in rows)

    def numbers(self, query: Query) -> Sequence[float]:
        return LOOKS[self.sees](self._raw[query.query_id])

    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        super().restore(values, arrays)
        self._raw = {}


def comments(code: str) -> str:
    """Return the comments and long strings of a source, and the comments of the CUDA C++ in its strings.

    Of a source that is no valid Python, those before the fault.
    """
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.COMMENT:
                found.append(token.string)
            elif token.type == tokenize.STRING and is_cuda(token.string):
                found += _CUDA_COMMENT.findall(token.string)
            elif token.type == tokenize.STRING and token.string.endswith(('"""', "'''")):
                found.append(token.string)
    except (tokenize.TokenError, SyntaxError):
        pass
    return "\n".join(found)


def _words(raw: Raw) -> Sequence[float]:
    counts = [0.0] * WORDS
    for word in _WORD.findall(comments(raw.code)):
        counts[hashed(word.lower(), WORDS + 1) - 1] += 1
    return [math.log1p(count) for count in counts]


def _step(value: float) -> Sequence[float]:
    place = min(int(value * STEPS), STEPS - 1)
    return [value, *(float(place == step) for step in range(STEPS))]


LOOKS: Mapping[str, Callable[[Raw], Sequence[float]]] = {
    "comments": _words,
    "order": lambda raw: _step(raw.position),
    "id": lambda raw: _step(raw.number),
    "anchors": lambda raw: [math.log1p(raw.n_anchor), float(raw.n_anchor > 0)],
}
