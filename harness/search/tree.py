"""The PUCT archive of a search's state: which nodes are next, and which codes they are recombined with."""

from __future__ import annotations

import random

from harness.search.archive import Archive
from harness.search.state import SearchState

PARTNERS = 6
PARTNERS_PER_SEED = 2


class TreeIndex:
    """The archive of a state, brought forward by whole steps, in the order of the nodes."""

    def __init__(self) -> None:
        self.archive = Archive()
        self._position: dict[str, int] = {}
        self._ids: list[str] = []
        self._standing: dict[str, tuple[float | None, bool]] = {}
        self._expanded: set[str] = set()
        self._steps = -1

    def advance(self, state: SearchState) -> None:
        """Add the steps that were completed since the last call, and what became known about older nodes."""
        for step in range(self._steps + 1, state.steps_completed + 1):
            for node in state.of_step(step):
                parent = None if node.parent_node_id is None else self._position[node.parent_node_id]
                measured = node.status is not None
                self._position[node.node_id] = self.archive.add(parent, node.standing, measured)
                self._standing[node.node_id] = (node.standing, measured)
                self._ids.append(node.node_id)
            for parent_id in state.steps[step - 1].parents if step else ():
                self.archive.expand(self._position[parent_id])
                self._expanded.add(parent_id)
            self._steps = step
        for node_id in sorted(state.revised & self._position.keys()):
            node = state.nodes[node_id]
            now = (node.standing, node.status is not None)
            if now != self._standing[node_id]:
                self._standing[node_id] = now
                self.archive.revise(self._position[node_id], *now)

    def select(self, state: SearchState, count: int, c_puct: float) -> list[str]:
        """Return the ids of the next parents; nodes without anything new to propose are passed over."""
        exclude = [self._position[node_id] for node_id in state.exhausted]
        return [self._ids[position] for position in self.archive.select(count, c_puct, exclude)]

    def draw(self, state: SearchState, count: int, rng: random.Random) -> list[str]:
        """Return ids of correct nodes that were never expanded, drawn with no regard to their speed."""
        free = [i for i in self._ids if state.nodes[i].value is not None and i not in self._expanded]
        return rng.sample(free, min(count, len(free)))

    def partners(self, state: SearchState) -> list[str]:
        """Return ids of kernels to recombine with: the fastest measured ones, at most two from one seed.

        One more than a parent gets, because a parent is no partner of its own.
        """
        taken: dict[str, int] = {}
        found: list[str] = []
        for position in self.archive.fastest():
            node = state.nodes[self._ids[position]]
            if taken.get(node.seed_id, 0) < PARTNERS_PER_SEED:
                taken[node.seed_id] = taken.get(node.seed_id, 0) + 1
                found.append(node.node_id)
                if len(found) > PARTNERS:
                    break
        return found
