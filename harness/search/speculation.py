"""Scores for kernels that were not measured: the parent's score and the forecast of how the child compares to it.

    log2 score(child) = log2 score(parent) + beta * m,    variance(child) = variance(parent) + residual variance

m is the forecast's mean of log2 S(parent -> child); the score of a measured parent is its own, without variance.
beta in [0, 1] and the residual variance come from least squares through the origin over pairs of forecast and measured
log2 S: those of the validation split count like `weight` observations, each measured child of this search like one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from harness.search.arms import forecast_log2, log2_ok
from harness.search.node import Node, Score
from harness.search.state import SearchState

MOST_UNMEASURED = 2  # unmeasured ancestors in a row
PRIOR_WEIGHT = 16.0
# Where no validation pairs can be read: forecasts are believed by half, and their spread is that of a factor of two.
ASSUMED_BETA, ASSUMED_VARIANCE = 0.5, 1.0


@dataclass(frozen=True)
class Calibration:
    """Moments of forecast m and measured log2 S y, which beta and the residual variance follow from."""

    mm: float
    my: float
    yy: float
    weight: float
    rows: int
    source: str

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]], source: str) -> Calibration:
        """Return the calibration that pairs of (forecast, measured) log2 S imply. Raises ValueError for none."""
        if not pairs:
            raise ValueError(f"{source}: no measured pairs to calibrate forecasts on")
        n = len(pairs)
        mm, my, yy = (math.fsum(a * b for a, b in rows) / n for rows in _products(pairs))
        return cls(mm, my, yy, min(PRIOR_WEIGHT, float(n)), n, source)

    @classmethod
    def assumed(cls) -> Calibration:
        """Return the calibration to begin with where nothing was measured before."""
        yy = ASSUMED_BETA**2 + ASSUMED_VARIANCE
        return cls(1.0, ASSUMED_BETA, yy, PRIOR_WEIGHT / 4, 0, "assumed")

    def updated(self, pairs: Iterable[tuple[float, float]]) -> tuple[float, float]:
        """Return beta and the residual variance with the pairs of this search added."""
        rows = list(pairs)
        here = [math.fsum(a * b for a, b in product) for product in _products(rows)]
        before = (self.mm, self.my, self.yy)
        mm, my, yy = (self.weight * prior + found for prior, found in zip(before, here, strict=True))
        beta = min(max(my / mm, 0.0), 1.0) if mm > 0 else 0.0
        residual = (yy - 2 * beta * my + beta * beta * mm) / (self.weight + len(rows))
        return beta, max(residual, 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return the fields for the log."""
        return asdict(self)


def _products(pairs: Sequence[tuple[float, float]]) -> tuple[list[tuple[float, float]], ...]:
    return [(m, m) for m, _ in pairs], [(m, y) for m, y in pairs], [(y, y) for _, y in pairs]


def measured_pairs(state: SearchState) -> list[tuple[float, float]]:
    """Return (forecast, measured) log2 S of every child of this search that works and whose parent was measured."""
    pairs = []
    for node in state.nodes.values():
        parent = state.nodes.get(node.parent_node_id or "")
        if node.value is not None and parent is not None and parent.value is not None and usable(node):
            assert node.forecast is not None
            pairs.append((forecast_log2(node.forecast), node.value - parent.value))
    return pairs


def usable(node: Node) -> bool:
    """Return whether a node has a forecast that can become a score."""
    return node.forecast is not None and node.forecast.status == "ok"


def score_child(parent: Node, child: Node, beta: float, variance: float) -> Score | None:
    """Return the speculative score of a child; None if its parent has no standing or it has no forecast."""
    if parent.standing is None or not usable(child):
        return None
    assert child.forecast is not None
    base = Score(parent.value, 0.0, 0.0) if parent.value is not None else parent.score
    assert base is not None
    mean = base.log2 + beta * forecast_log2(child.forecast)
    return Score(mean, base.variance + variance, base.log2_ok + log2_ok(child.forecast))


def unmeasured_row(state: SearchState, node_id: str) -> list[str]:
    """Return the nodes from this one upwards that were not measured, without a measured one in between."""
    row = []
    node: Node | None = state.nodes[node_id]
    while node is not None and node.status is None:
        row.append(node.node_id)
        node = state.nodes.get(node.parent_node_id or "")
    return row


def to_verify(state: SearchState, parents: Sequence[str]) -> dict[str, str]:
    """Return which node has to be measured before a selected parent is expanded, by parent.

    A parent that claims to beat everything that was measured is measured itself: the search is about to build on the
    claim, and a kernel counts as best only once measured. Where its children would have too many unmeasured ancestors
    in a row, the highest of these is measured, on which all the others rest.
    """
    best = state.best()
    record = -math.inf if best is None or best.value is None else best.value
    found = {}
    for node_id in parents:
        node = state.nodes[node_id]
        if node.status is not None or node.standing is None:
            continue
        row = unmeasured_row(state, node_id)
        if node.standing > record:
            found[node_id] = node_id
        elif len(row) > MOST_UNMEASURED:
            found[node_id] = row[-1]
    return found


def rescored(state: SearchState, measured: Sequence[str], beta: float, variance: float) -> dict[str, Any]:
    """Return the new scores of the unmeasured descendants of nodes that were just measured, None for a lost one.

    Only descendants without a measured node in between depend on them.
    """
    below: dict[str, list[Node]] = {}
    for node in state.nodes.values():
        if node.status is None and node.score is not None and node.parent_node_id is not None:
            below.setdefault(node.parent_node_id, []).append(node)
    scores: dict[str, Score | None] = {}
    work = [state.nodes[node_id] for node_id in measured]
    while work:
        parent = work.pop()
        for child in below.get(parent.node_id, ()):
            known = parent if parent.status is not None else replace(parent, score=scores[parent.node_id])
            scores[child.node_id] = score_child(known, child, beta, variance)
            work.append(child)
    return scores_json(scores)


def scores_json(scores: Mapping[str, Score | None]) -> dict[str, Any]:
    """Return scores as JSON values in the order of the node ids."""
    return {node_id: None if score is None else asdict(score) for node_id, score in sorted(scores.items())}
