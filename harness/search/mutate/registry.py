"""The edits of the source mutator: one named function each, on a Python tree or on C++ text inside it."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import dataclass

from harness.search.mutate.classify import operator_class
from harness.search.mutate.proposal import Proposal
from harness.search.mutate.source import unparse

Change = Callable[[ast.Module, random.Random, "ast.Module | None"], bool]
EDITS: dict[str, Edit] = {}


@dataclass(frozen=True)
class Edit:
    """One named edit. `theme` groups edits for sampling; the stored class follows from the trees, not from it."""

    name: str
    theme: str
    languages: tuple[str, ...]
    change: Change
    weight: float = 1.0
    partner: bool = False

    def propose(self, code: str, language: str, rng: random.Random, partner: str | None = None) -> Proposal | None:
        """Return a child of a kernel in this language, or None where the edit has nothing to change.

        Raises SyntaxError if the code does not parse.
        """
        child = self.edited(code, language, rng, partner)
        return None if child is None else Proposal(child, self.name, operator_class(code, child, partner))

    def edited(self, code: str, language: str, rng: random.Random, partner: str | None = None) -> str | None:
        """Return the edited source, or None where there is nothing to change."""
        if language not in self.languages or (self.partner and partner is None):
            return None
        module = ast.parse(code)
        before = ast.dump(module)
        if not self.change(module, rng, ast.parse(partner) if self.partner and partner is not None else None):
            return None
        child = unparse(module)
        return None if ast.dump(ast.parse(child)) == before else child


def edit(
    name: str, theme: str, *languages: str, weight: float = 1.0, partner: bool = False
) -> Callable[[Change], Change]:
    """Register an edit that changes a Python tree in place and says whether it did."""

    def register(change: Change) -> Change:
        if name in EDITS:
            raise ValueError(f"edit '{name}' is registered twice")
        EDITS[name] = Edit(name, theme, languages, change, weight, partner)
        return change

    return register


TextChange = Callable[[str, random.Random], "str | None"]


def text_edit(name: str, theme: str, weight: float = 1.0) -> Callable[[TextChange], TextChange]:
    """Register an edit of the C++ source that a kernel file holds in its strings; None means nothing to change."""

    def register(change: TextChange) -> TextChange:
        def on_module(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
            texts = cuda_texts(module)
            rng.shuffle(texts)
            for constant in texts:
                changed = change(str(constant.value), rng)
                if changed is not None and changed != constant.value:
                    constant.value = changed
                    return True
            return False

        edit(name, theme, "cuda", weight=weight)(on_module)
        return change

    return register


def cuda_texts(module: ast.Module) -> list[ast.Constant]:
    """Return the string constants that hold CUDA C++ kernels."""
    return [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "__global__" in node.value
    ]
