"""The built-in mutator: samples edits over themes, one to three of them per child."""

from __future__ import annotations

import ast
import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from benchmark.code_view import language_of
from harness.search.mutate.classify import operator_class
from harness.search.mutate.constants import declared_constant
from harness.search.mutate.proposal import Feedback, Proposal, nothing_known
from harness.search.mutate.registry import EDITS, Edit
from tasks.declared import ranges_of
from tasks.spec import Ranges

VERSION = "source@3"
NOTHING_DECLARED: Mapping[str, Ranges] = MappingProxyType({})
EDITS_PER_CHILD = (1, 2, 3)
EDITS_PER_CHILD_WEIGHTS = (0.6, 0.27, 0.13)
ATTEMPTS_PER_CHILD = 12
THEMES = {"recombination": 0.5, "host": 0.6, "precision": 0.7}  # sampling weights other than 1
MAX_BYTES = 24_000  # recombined files grow; a forecaster's context does not


T = TypeVar("T")


def _weighted_order(items: Sequence[T], weight: Callable[[T], float | None], rng: random.Random) -> list[T]:
    """Return the items in random order, heavier ones earlier on average (Efraimidis and Spirakis, 2006)."""
    return sorted(items, key=lambda item: rng.random() ** (1 / (weight(item) or 1.0)), reverse=True)


class SourceMutator:
    """Rewrites Triton, CUDA and PyTorch sources by general edits, and sets the constants that a task declares.

    It uses no network, model or GPU. Its name tells other declarations apart, because they lead to other children.
    """

    may_succeed_later = False

    def __init__(self, edits: Sequence[Edit] | None = None, constants: Mapping[str, Ranges] = NOTHING_DECLARED) -> None:
        self.edits = tuple(EDITS.values() if edits is None else edits)
        self._constants = constants
        self.name = f"{VERSION}+{_digest(constants)}" if constants else VERSION

    def propose(
        self,
        parent_code: str,
        rng: random.Random,
        n: int,
        partners: Sequence[str] = (),
        known: Callable[[str], bool] = nothing_known,
        feedback: Feedback | None = None,
        seed_id: str = "",
    ) -> list[Proposal]:
        """Return up to n children, distinct from each other, from the parent and from what is known.

        `seed_id` is the seed that the parent descends from, whose declared constants may be set in the children. Fewer
        come back once the attempts are used up. Raises SyntaxError if the parent does not parse.
        """
        ranges = ranges_of(self._constants, seed_id)
        edits = (*self.edits, declared_constant(ranges)) if ranges else self.edits
        found: list[Proposal] = []
        seen = {ast.dump(ast.parse(parent_code))}
        for _ in range(ATTEMPTS_PER_CHILD * n):
            if len(found) == n:
                break
            proposal = _child(edits, parent_code, rng, partners)
            if proposal is None or len(proposal.code.encode()) > MAX_BYTES:
                continue
            shape = ast.dump(ast.parse(proposal.code))
            if shape not in seen and not known(proposal.code):
                seen.add(shape)
                found.append(proposal)
        return found


def _child(edits: Sequence[Edit], parent_code: str, rng: random.Random, partners: Sequence[str]) -> Proposal | None:
    count = rng.choices(EDITS_PER_CHILD, EDITS_PER_CHILD_WEIGHTS)[0]
    code, used = parent_code, list[str]()
    partner = rng.choice(partners) if partners else None
    for _ in range(count):
        step = _edited(edits, code, rng, partner, used)
        if step is None:
            break
        code, name = step
        used.append(name)
    if not used:
        return None
    return Proposal(code, "+".join(sorted(used)), operator_class(parent_code, code, partner))


def _edited(
    edits: Sequence[Edit], code: str, rng: random.Random, partner: str | None, used: Sequence[str]
) -> tuple[str, str] | None:
    """Try edits in random order, themes first, so that a theme of many edits is not drawn more often."""
    language = language_of(code)
    themes = _weighted_order(sorted({e.theme for e in edits if language in e.languages}), THEMES.get, rng)
    for theme in themes:
        open_ = [e for e in edits if e.theme == theme and language in e.languages and e.name not in used]
        for candidate in _weighted_order(open_, lambda e: e.weight, rng):
            child = candidate.edited(code, language, rng, partner)
            if child is not None:
                return child, candidate.name
    return None


def _digest(constants: Mapping[str, Ranges]) -> str:
    return hashlib.sha256(json.dumps(constants, sort_keys=True).encode()).hexdigest()[:8]
