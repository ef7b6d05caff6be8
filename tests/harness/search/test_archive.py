"""PUCT scores against values computed by hand, lineage blocking, and the cost of a step on a large archive."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from harness.search.archive import MIN_SCALE, Archive


def small_tree() -> Archive:
    """Seed 0 (value 0) with children 1 (value 1) and 2 (failed); seed 3 (value 0.5) with child 4 (value -1)."""
    archive = Archive(capacity=2)
    archive.add(None, 0.0)
    archive.add(0, 1.0)
    archive.add(0, None)
    archive.add(None, 0.5)
    archive.add(3, -1.0)
    archive.expand(0)
    archive.expand(3)
    return archive


def test_scores_match_hand_computed_values() -> None:
    archive = small_tree()
    # Values by rank: node 1 (1.0), node 3 (0.5), node 0 (0.0), node 4 (-1.0); N = 4, so priors are 4, 3, 2, 1 tenths.
    # scale = 1 - (-1) = 2 over the non-seed values, sqrt(1 + T) = sqrt(3).
    explore = 2 * math.sqrt(3)
    expected = [1.0 + explore * 0.2 / 2, 1.0 + explore * 0.4, -math.inf, -1.0 + explore * 0.3 / 2, -1.0 + explore * 0.1]
    assert archive.scores(1.0) == pytest.approx(expected)
    assert archive.scores(0.0)[0] == 1.0  # the best child, not the node's own 0.0


def test_value_of_a_visited_node_falls_below_its_own_when_its_children_are_slower() -> None:
    archive = small_tree()
    assert archive.scores(0.0)[3] == -1.0


def test_visited_node_without_a_working_child_keeps_its_own_value_but_counts_the_visit() -> None:
    archive = Archive()
    archive.add(None, 0.25)
    archive.add(0, None)
    archive.expand(0)
    assert archive.visits.tolist() == [1, 0]
    assert archive.expansions == 1
    # Only a seed has a value, so the scale is that of all values: a single one, the floor.
    assert archive.scores(1.0)[0] == pytest.approx(0.25 + MIN_SCALE * 1.0 * math.sqrt(2) / 2)


def test_expansion_visits_every_ancestor() -> None:
    archive = Archive()
    for parent in (None, 0, 1, 0):
        archive.add(parent, 0.0)
    archive.expand(2)
    assert archive.visits.tolist() == [1, 1, 1, 0]


def test_scale_needs_two_values_beside_the_seeds() -> None:
    archive = Archive()
    archive.add(None, 0.0)
    archive.add(None, 3.0)
    archive.add(0, 1.0)
    assert archive.scale() == 3.0
    archive.add(0, 1.5)
    assert archive.scale() == 0.5
    assert Archive().scale() == 1.0


def test_batch_never_holds_a_node_and_its_ancestor() -> None:
    archive = Archive()
    for parent, value in ((None, 0.0), (0, 5.0), (1, 4.0), (2, 3.0), (None, -5.0), (0, 2.0)):
        archive.add(parent, value)
    # Node 1 is best; 0 is its ancestor, 2 and 3 its descendants; 5 is a sibling.
    assert archive.select(3) == [1, 5, 4]
    assert archive.select(1, exclude=[1]) == [2]


def test_failed_kernels_are_never_selected() -> None:
    archive = Archive()
    archive.add(None, None)
    assert archive.select(2) == []
    assert Archive().select(2) == []


def test_equal_scores_go_to_the_older_node() -> None:
    archive = Archive()
    archive.add(None, 1.0)
    archive.add(None, 1.0)
    assert archive.select(2) == [0, 1]


def test_ranks_follow_additions_between_selections() -> None:
    rng = np.random.default_rng(1)
    archive, values = Archive(), []
    for node in range(200):
        values.append(float(rng.integers(0, 20)))
        archive.add(None if node == 0 else node - 1, values[-1])
        if node % 7 == 0:
            archive.prior()
    by_value = sorted(range(200), key=lambda node: (-values[node], node))
    assert np.argsort(-archive.prior(), kind="stable").tolist() == by_value
    assert archive.prior().sum() == pytest.approx(1.0)


def test_unknown_parent_is_refused() -> None:
    with pytest.raises(ValueError, match="parent 3 is not in the archive of 0 nodes"):
        Archive().add(3, 1.0)


@pytest.mark.parametrize("shape", ["bushy", "chain"])
def test_a_step_on_100_000_nodes_takes_under_20_ms(shape: str) -> None:
    rng = np.random.default_rng(0)
    archive = Archive()
    for node in range(100_000):
        parent = None if node < 8 else (int(rng.integers(0, node)) if shape == "bushy" else node - 8)
        archive.add(parent, float(rng.normal()) if rng.random() < 0.9 else None)
    archive.select(2)
    times = []
    for _ in range(25):
        start = time.thread_time()  # of this thread alone: other tests run beside it
        for node in archive.select(2):
            for value in rng.normal(size=8):
                archive.add(node, float(value))
            archive.expand(node)
        times.append(time.thread_time() - start)
    assert min(times) < 0.020
