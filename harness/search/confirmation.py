"""The fastest kernels of a search that measured in `shared`, measured once more in `strict`, and what came of it.

It happens once the search has come to its end, beside the budget. A lane is vouched for by its canary; a kernel that is
called the best should not need one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from harness.search.config import SearchConfig
from harness.search.node import Node, geomean_us
from harness.search.state import SearchState

SAME_LOG = math.log(1.03)  # a time that moved by more is not called the same


def confirmations_of(config: SearchConfig, session: Mapping[str, Any]) -> int:
    """Return how many kernels a search has confirmed: none unless its backend times kernels in `shared`."""
    shared = session.get("isolation") == "shared" and session.get("timing_method") != "none"
    return config.confirmations if shared else 0


def to_confirm(state: SearchState, count: int) -> list[Node]:
    """Return the nodes not confirmed yet among the `count` fastest that were measured in `shared`, fastest first."""
    shared = [node for node in state.nodes.values() if node.value is not None and node.isolation == "shared"]
    fastest = sorted(shared, key=lambda node: -(node.value or 0.0))[:count]  # equal ones stand by age
    return [node for node in fastest if node.confirmation is None]


def time_change(node: Node) -> float | None:
    """Return t_strict / t_shared - 1 of a node that was timed in both, from the geometric means over cases."""
    strict = None if node.confirmation is None else geomean_us(node.confirmation.cases)
    return None if strict is None or node.time_us is None else strict / node.time_us - 1


def verdict(node: Node) -> str:
    """Return what a confirmation says: `confirmed`, `differs` (the time moved by more than 3%) or `failed: STATUS`."""
    assert node.confirmation is not None
    if node.confirmation.status != "ok":
        return f"failed: {node.confirmation.status}"
    change = time_change(node)
    return "confirmed" if change is None or abs(math.log1p(change)) <= SAME_LOG else "differs"


def confirmation_rows(state: SearchState) -> list[dict[str, Any]]:
    """Return one row for each confirmed kernel, the fastest in `shared` first: both speedups, times in us, verdict."""
    nodes = [node for node in state.nodes.values() if node.confirmation is not None]
    return [_row(state.search_id, node) for node in sorted(nodes, key=lambda node: -(node.value or 0.0))]


def _row(search_id: str, node: Node) -> dict[str, Any]:
    strict = node.reported
    return {
        "search_id": search_id,
        "kernel_id": node.kernel_id,
        "shared_speedup": 2 ** (node.value or 0.0),
        "strict_speedup": None if strict is None else 2**strict,
        "shared_us": node.time_us,
        "strict_us": None if node.confirmation is None else geomean_us(node.confirmation.cases),
        "time_change": time_change(node),
        "verdict": verdict(node),
    }
