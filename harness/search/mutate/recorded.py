"""The mutator of a replay: the children that a recording holds for a parent, each of them once."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from benchmark.identity import kernel_id
from harness.search.mutate.proposal import Feedback, Proposal, nothing_known

if TYPE_CHECKING:
    from harness.search.recording import Recording


class RecordedMutator:
    """Proposes what was proposed when the recording was made, in that order; a parent without children is a leaf."""

    may_succeed_later = False

    def __init__(self, recording: Recording) -> None:
        self.name = f"recorded:{recording.digest}"
        self._recording = recording

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
        """Return the next n recorded children that are not known yet; fewer, or none, once they run out."""
        children = self._recording.children.get(kernel_id(self._recording.task, parent_code), ())
        return [child for child in children if not known(child.code)][:n]
