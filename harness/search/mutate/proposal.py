"""What a mutator is asked and what it answers, whatever it is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.search.node import CaseMedian


@dataclass(frozen=True)
class Proposal:
    """A child: its source, the edits that made it (joined by `+`) and the class of the difference to its parent.

    Seconds and tokens are what it cost, where it cost any; `language` is that of the source, where it is known already.
    """

    code: str
    operator: str
    operator_class: str
    origin: str = "mutation"
    language: str | None = None
    seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True)
class Rejected:
    """An answer that was paid for and holds no child: why, and what it cost."""

    reason: str
    seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True)
class Feedback:
    """What was measured of a parent: median times per case, and (status, error) of children of it that failed."""

    cases: tuple[CaseMedian, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()


def nothing_known(code: str) -> bool:
    """Return False: the check for a search that has no other kernels."""
    return False


class Mutator(Protocol):
    """Where children come from; the name tells versions apart that propose differently.

    `may_succeed_later` is true of one that may answer anew when it is asked about the same parent again.
    """

    name: str
    may_succeed_later: bool

    def propose(
        self,
        parent_code: str,
        rng: random.Random,
        n: int,
        partners: Sequence[str] = (),
        known: Callable[[str], bool] = nothing_known,
        feedback: Feedback | None = None,
        seed_id: str = "",
    ) -> Sequence[Proposal | Rejected]:
        """Return up to n distinct children that are not known yet, and the answers that held none.

        `seed_id` names the seed that the parent descends from.
        """
        ...
