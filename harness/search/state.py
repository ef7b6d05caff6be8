"""The state of a search as a pure function of its events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from harness.measure.result import Measurement
from harness.search.archive import Archive
from harness.search.events import Event


@dataclass(frozen=True)
class Node:
    """One place in the search tree; `value` is the log2 speedup over the reference, None if failed or unmeasured."""

    node_id: str
    kernel_id: str
    code: str
    language: str
    step: int
    seed_id: str
    parent_node_id: str | None = None
    operator: str | None = None
    operator_class: str | None = None
    status: str | None = None
    value: float | None = None


@dataclass
class SearchState:
    """What the log says so far. Sessions are left out of comparisons: a resumed search has more of them."""

    search_id: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    steps: list[tuple[str, ...]] = field(default_factory=list)  # the parents of step 1, 2, ...
    steps_completed: int = 0
    anchors: dict[tuple[int, str], str] = field(default_factory=dict)  # (step, node) -> status
    exhausted: set[str] = field(default_factory=set)  # nodes for which the mutator found nothing new
    completed: str | None = None
    sessions: list[Mapping[str, Any]] = field(default_factory=list, compare=False)

    @property
    def started(self) -> bool:
        """Whether the log has its first event."""
        return bool(self.search_id)

    @property
    def finished(self) -> bool:
        """Whether the search has ended for good; an interrupted one goes on."""
        return self.completed in ("budget", "exhausted")

    @property
    def step(self) -> int:
        """Number of the last step that was started; 0 before the first."""
        return len(self.steps)

    @property
    def measured(self) -> int:
        """Candidate measurements spent, which is what the budget counts."""
        return sum(node.status is not None for node in self.nodes.values())

    def of_step(self, step: int) -> list[Node]:
        """Return the nodes that a step added, oldest first; step 0 has the seeds."""
        return [node for node in self.nodes.values() if node.step == step]

    def before(self, step: int) -> list[Node]:
        """Return the nodes that were there when a step began, oldest first."""
        return [node for node in self.nodes.values() if node.step < step]

    def best(self) -> Node | None:
        """Return the fastest correct node, the oldest among equals."""
        ok = [node for node in self.nodes.values() if node.value is not None]
        return max(ok, key=lambda node: node.value or 0.0, default=None)


def log2_speedup(measurement: Measurement) -> float | None:
    """Return the mean over timing cases of log2(median reference time / median candidate time); None if it failed.

    A correct kernel without times (a backend that only checks) is worth 0.
    """
    if measurement.status != "ok":
        return None
    logs = [math.log2(median(case.reference_ns) / median(case.candidate_ns)) for case in measurement.cases]
    return math.fsum(logs) / len(logs) if logs else 0.0


def apply(state: SearchState, event: Event) -> None:
    """Bring a state forward by one event; kinds of a later version are ignored."""
    kind = event["kind"]
    if kind == "search_started":
        state.search_id, state.config, state.task = event["search_id"], event["config"], event["task"]
    elif kind == "session_started":
        state.sessions.append(event["session"])
        state.completed = None
    elif kind == "seed_added":
        _add(state, event, 0, event["seed_id"])
    elif kind == "step_started":
        state.steps.append(tuple(event["parents"]))
    elif kind == "proposed":
        _add(state, event, event["step"], state.nodes[event["parent_node_id"]].seed_id)
    elif kind == "proposal_failed":
        state.exhausted.add(event["parent_node_id"])
    elif kind == "measured":
        _measure(state, event)
    elif kind == "step_completed":
        state.steps_completed = event["step"]
    elif kind == "search_completed":
        state.completed = event["reason"]


def _add(state: SearchState, event: Event, step: int, seed_id: str) -> None:
    state.nodes[event["node_id"]] = Node(
        node_id=event["node_id"],
        kernel_id=event["kernel_id"],
        code=event["code"],
        language=event["language"],
        step=step,
        seed_id=seed_id,
        parent_node_id=event.get("parent_node_id"),
        operator=event.get("operator"),
        operator_class=event.get("operator_class"),
    )


def _measure(state: SearchState, event: Event) -> None:
    measurement = Measurement.from_json(event["measurement"])
    if event["role"] == "anchor":
        state.anchors[state.step, event["node_id"]] = measurement.status
    else:
        node = state.nodes[event["node_id"]]
        state.nodes[node.node_id] = replace(node, status=measurement.status, value=log2_speedup(measurement))


def fold(events: Iterable[Event]) -> SearchState:
    """Return the state that a sequence of events leads to; the order in which measurements finished does not matter."""
    state = SearchState()
    for event in events:
        apply(state, event)
    return state


class TreeIndex:
    """The PUCT archive of a state, brought forward by whole steps, in the order of the nodes."""

    def __init__(self) -> None:
        self.archive = Archive()
        self._position: dict[str, int] = {}
        self._ids: list[str] = []
        self._steps = -1

    def advance(self, state: SearchState) -> None:
        """Add the steps that were completed since the last call."""
        for step in range(self._steps + 1, state.steps_completed + 1):
            for node in state.of_step(step):
                parent = None if node.parent_node_id is None else self._position[node.parent_node_id]
                self._position[node.node_id] = self.archive.add(parent, node.value)
                self._ids.append(node.node_id)
            for parent_id in state.steps[step - 1] if step else ():
                self.archive.expand(self._position[parent_id])
            self._steps = step

    def select(self, state: SearchState, count: int, c_puct: float) -> list[str]:
        """Return the ids of the next parents; nodes without anything new to propose are passed over."""
        exclude = [self._position[node_id] for node_id in state.exhausted]
        return [self._ids[position] for position in self.archive.select(count, c_puct, exclude)]
