"""The mutator that an expression names: `source`, or `llm=MODEL` with its endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl

from harness.search.config import Problem
from harness.search.mutate.mutator import SourceMutator
from harness.search.mutate.proposal import Mutator


@contextmanager
def open_mutator(expression: str, folder: Path) -> Iterator[Callable[[Problem], Mutator]]:
    """Give a function that makes the mutator of a problem.

    `source`, or `llm=MODEL?url=...&temperature=...`, which keeps its answers in FOLDER/llm.

    Raises ValueError for anything else.
    """
    target, _, query = expression.partition("?")
    kind, _, model = target.partition("=")
    if expression == "source":
        yield lambda problem: SourceMutator(constants=problem.constants)
        return
    if kind != "llm" or not model:
        raise ValueError(f"unknown mutator '{expression}'; write source, or llm=MODEL?url=http://HOST/v1")
    from harness.search.mutate.llm import open_llm

    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
    except ValueError:
        raise ValueError(f"cannot read the options of '{expression}': write ?key=value&key=value") from None
    with open_llm(model, folder / "llm", options) as maker:
        yield maker
