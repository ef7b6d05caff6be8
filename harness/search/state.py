"""The state of a search as a pure function of its events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from benchmark.query import Forecast
from harness.measure.result import Measurement
from harness.search.events import Event
from harness.search.node import Confirmation, Node, Score, case_medians, log2_speedup

_FORECAST_FIELDS = tuple(f.name for f in fields(Forecast))


@dataclass(frozen=True)
class Step:
    """How a step began: its parents, what is measured before they are expanded, and whom they are recombined with."""

    parents: tuple[str, ...]
    verify: tuple[str, ...] = ()
    partners: tuple[str, ...] = ()


@dataclass
class Costs:
    """What a search has spent beside its budget, second sessions left out."""

    proposals: int = 0
    rejected: int = 0
    proposal_seconds: float = 0.0
    proposal_tokens: int = 0
    forecasts: int = 0
    forecast_seconds: float = 0.0
    forecast_tokens: int = 0
    measuring_seconds: float = 0.0
    repeats: int = 0

    def to_json(self) -> dict[str, float | int]:
        """Return the fields with seconds rounded to microseconds."""
        return {k: round(v, 6) if isinstance(v, float) else v for k, v in vars(self).items()}


@dataclass
class SearchState:
    """What the log says so far. Sessions and costs are left out of comparisons: a resumed search has more of them."""

    search_id: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)
    calibration: Mapping[str, Any] | None = None
    nodes: dict[str, Node] = field(default_factory=dict)
    step_nodes: list[list[str]] = field(default_factory=lambda: [[]])  # ids added by step 0 (the seeds), 1, 2, ...
    first_step: dict[str, int] = field(default_factory=dict)  # kernel_id -> the step that added it first
    steps: list[Step] = field(default_factory=list)  # step 1, 2, ...
    chosen: dict[int, tuple[str, ...]] = field(default_factory=dict)  # step -> the children to measure
    steps_completed: int = 0
    anchors: dict[tuple[int, str], str] = field(default_factory=dict)  # (step, node) -> status
    rejections: dict[tuple[int, str], int] = field(default_factory=dict)  # (step, parent) -> answers without a child
    exhausted: set[str] = field(default_factory=set)  # nodes for which the mutator found nothing new
    rescored: set[int] = field(default_factory=set)  # steps whose verified parents had their descendants rescored
    revised: set[str] = field(default_factory=set)  # nodes whose standing changed after the step that added them
    measured: int = 0  # candidate measurements spent, which is what the budget counts
    completed: str | None = None
    sessions: dict[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)
    costs: Costs = field(default_factory=Costs, compare=False)

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
    def barren_steps(self) -> int:
        """Number of steps up to the last one that added no node, in a row."""
        added = (i for i, ids in enumerate(reversed(self.step_nodes)) if ids)
        return next(added, len(self.steps))

    def of_step(self, step: int) -> list[Node]:
        """Return the nodes that a step added, oldest first; step 0 has the seeds."""
        return [self.nodes[node_id] for node_id in self.step_nodes[step]]

    def children(self, parent_id: str, step: int) -> list[Node]:
        """Return the children that a step added to a parent, oldest first."""
        return [node for node in self.of_step(step) if node.parent_node_id == parent_id]

    def best(self) -> Node | None:
        """Return the fastest correct node that was measured, the oldest among equals.

        Once kernels were confirmed, what was measured in `shared` alone counts only if nothing else worked.
        """
        nodes = list(self.nodes.values())
        ok = [node for node in nodes if node.reported is not None]
        if any(node.confirmation for node in nodes):
            ok = [node for node in ok if node.confirmation or node.isolation != "shared"] or ok
        return max(ok, key=lambda node: node.reported or 0.0, default=None)


def apply(state: SearchState, event: Event) -> None:
    """Bring a state forward by one event; kinds of a later version are ignored."""
    kind = event["kind"]
    if kind == "search_started":
        state.search_id, state.config, state.task = event["search_id"], event["config"], event["task"]
    elif kind == "session_started":
        session = event["session"]
        state.sessions[session["session_id"]] = session
        if not _second(session):
            state.completed = None
    elif kind == "calibrated":
        state.calibration = event["calibration"]
    elif kind == "seed_added":
        _add(state, event, 0, event["seed_id"])
    elif kind == "step_started":
        parents, verify, partners = (tuple(event.get(name, ())) for name in ("parents", "verify", "partners"))
        state.steps.append(Step(parents, verify, partners))
        state.step_nodes.append([])
    elif kind == "proposed":
        _add(state, event, event["step"], state.nodes[event["parent_node_id"]].seed_id)
        _count_proposal(state, event)
    elif kind == "proposal_rejected":
        key = (event["step"], event["parent_node_id"])
        state.rejections[key] = state.rejections.get(key, 0) + 1
        state.costs.rejected += 1
        _count_proposal(state, event)
    elif kind == "proposal_failed":
        state.exhausted.add(event["parent_node_id"])
    elif kind == "forecast":
        _forecast(state, event)
    elif kind == "chosen":
        state.chosen[event["step"]] = tuple(event["measure"])
        _score(state, event["scores"])
    elif kind == "rescored":
        state.rescored.add(event["step"])
        _score(state, event["scores"])
    elif kind == "measured":
        _measure(state, event)
    elif kind == "confirmed":
        _confirm(state, event)
    elif kind == "step_completed":
        state.steps_completed = event["step"]
    elif kind == "search_completed":
        state.completed = event["reason"]


def _second(session: Mapping[str, Any]) -> bool:
    return session.get("role") == "second"


def _add(state: SearchState, event: Event, step: int, seed_id: str) -> None:
    state.nodes[event["node_id"]] = Node(
        node_id=event["node_id"],
        kernel_id=event["kernel_id"],
        code=event["code"],
        language=event["language"],
        step=step,
        seed_id=seed_id,
        parent_node_id=event.get("parent_node_id"),
        origin=event.get("origin", "seed"),
        operator=event.get("operator"),
        operator_class=event.get("operator_class"),
    )
    state.step_nodes[step].append(event["node_id"])
    state.first_step.setdefault(event["kernel_id"], step)


def _count_proposal(state: SearchState, event: Event) -> None:
    state.costs.proposals += event["kind"] == "proposed"
    state.costs.proposal_seconds += event.get("seconds") or 0.0
    state.costs.proposal_tokens += (event.get("input_tokens") or 0) + (event.get("output_tokens") or 0)


def _forecast(state: SearchState, event: Event) -> None:
    given = {k: v for k, v in event["forecast"].items() if k in _FORECAST_FIELDS}
    if given["probabilities"] is not None:
        given["probabilities"] = tuple(given["probabilities"])
    forecast = Forecast(**given)
    costs = state.costs
    costs.forecasts += 1
    costs.forecast_seconds += forecast.seconds or 0.0
    costs.forecast_tokens += (forecast.input_tokens or 0) + (forecast.output_tokens or 0)
    # What the answer cost differs from run to run, what it says must not.
    said = replace(forecast, seconds=None, input_tokens=None, output_tokens=None)
    state.nodes[event["node_id"]] = replace(state.nodes[event["node_id"]], forecast=said)


def _score(state: SearchState, scores: Mapping[str, Any]) -> None:
    for node_id, row in scores.items():
        node = state.nodes[node_id]
        state.nodes[node_id] = replace(node, score=None if row is None else Score(**row))
        if node.step < state.step:
            state.revised.add(node_id)


def _measure(state: SearchState, event: Event) -> None:
    measurement = Measurement.from_json(event["measurement"])
    if _second(state.sessions.get(measurement.session_id, {})):
        return  # for the noise ceiling: the search neither paid for it nor saw it
    state.costs.measuring_seconds += _seconds(measurement)
    if event["role"] == "anchor":
        state.anchors[state.step, event["node_id"]] = measurement.status
        state.costs.repeats += 1
        return
    node = state.nodes[event["node_id"]]
    state.measured += node.status is None
    state.nodes[node.node_id] = replace(
        node,
        status=measurement.status,
        value=log2_speedup(measurement),
        error=measurement.error,
        cases=case_medians(measurement),
        isolation=measurement.isolation,
    )
    if node.step < state.step:
        state.revised.add(node.node_id)


def _confirm(state: SearchState, event: Event) -> None:
    measurement = Measurement.from_json(event["measurement"])
    state.costs.measuring_seconds += _seconds(measurement)
    found = Confirmation(measurement.status, log2_speedup(measurement), measurement.error, case_medians(measurement))
    state.nodes[event["node_id"]] = replace(state.nodes[event["node_id"]], confirmation=found)


def _seconds(measurement: Measurement) -> float:
    return math.fsum((measurement.compile_s, measurement.check_s, measurement.timing_s))


def fold(events: Iterable[Event]) -> SearchState:
    """Return the state that a sequence of events leads to; the order in which measurements finished does not matter."""
    state = SearchState()
    for event in events:
        apply(state, event)
    return state
