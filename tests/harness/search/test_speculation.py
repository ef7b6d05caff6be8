"""Speculative scores against values computed by hand, verification, and rescoring."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

import tasks
from benchmark.query import Forecast
from harness.search.config import SearchConfig
from harness.search.events import FILE_NAME, read_events
from harness.search.node import Node, Score
from harness.search.run import run_search
from harness.search.speculation import (
    MOST_UNMEASURED,
    Calibration,
    measured_pairs,
    rescored,
    score_child,
    to_verify,
    unmeasured_row,
)
from harness.search.state import SearchState, fold
from tests.harness.search.hash_surrogate import hash_forecaster
from tests.harness.search.table_backend import NumberingMutator, TableBackend

SEEDS = tasks.seed_names("rms_norm", "train")
CONFIG = SearchConfig(
    "s", "rms_norm", "train", SEEDS, 120, children_per_parent=6, measured_per_parent=1, arm="speculative",
    surrogate="hash",
)  # fmt: skip


def node(name: str, parent: str | None = None, **fields: object) -> Node:
    return Node(name, f"k-{name}", name, "triton", 0, "seed", parent, **fields)  # type: ignore[arg-type]


def forecast(log2: float, p_fail: float = 0.0) -> Forecast:
    return Forecast((1 / 8,) * 8, log2, p_fail=p_fail)


def test_beta_and_the_residual_variance_follow_from_least_squares() -> None:
    # y = m / 2 + e with e = (+1/2, -1/2, 0): sum mm = 2, sum my = 1, residuals (1/2, -1/2, 0).
    calibration = Calibration.of([(1.0, 1.0), (1.0, 0.0), (0.0, 0.0)], "hand")
    assert calibration.updated([]) == pytest.approx((0.5, 0.5 / 3))
    assert calibration.weight == 3
    # Three validation rows and one of this search, (2, 4): sum mm = 6, sum my = 9, so that beta is cut at 1.
    beta, variance = calibration.updated([(2.0, 4.0)])
    assert beta == 1.0
    assert variance == pytest.approx((1 + 16 - 2 * 9 + 6) / 4)
    assert Calibration.of([(1.0, -1.0)], "x").updated([])[0] == 0.0
    assert Calibration.assumed().updated([]) == pytest.approx((0.5, 1.0))
    assert Calibration.of([(0.0, 1.0)], "constant").updated([]) == (0.0, 1.0)


def test_many_validation_rows_count_like_sixteen() -> None:
    calibration = Calibration.of([(1.0, 0.5)] * 400, "many")
    assert (calibration.weight, calibration.rows) == (16, 400)
    assert calibration.updated([(1.0, 1.0)] * 16)[0] == pytest.approx(0.75)


def test_scores_add_up_along_unmeasured_ancestors() -> None:
    parent = node("a", status="ok", value=1.0)
    child = node("b", "a", forecast=forecast(0.4, p_fail=0.5))
    first = score_child(parent, child, 0.5, 0.04)
    assert first == Score(pytest.approx(1.2), pytest.approx(0.04), -1.0)  # type: ignore[arg-type]
    assert first is not None and first.lower == pytest.approx(1.2 - 1.0 - 0.2)
    second = score_child(replace(child, score=first), node("c", "b", forecast=forecast(-1.0)), 0.5, 0.05)
    assert second == Score(pytest.approx(0.7), pytest.approx(0.09), -1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parent", "child"),
    [
        (node("a", status="incorrect"), node("b", "a", forecast=forecast(1.0))),
        (node("a"), node("b", "a", forecast=forecast(1.0))),
        (node("a", status="ok", value=0.0), node("b", "a", forecast=Forecast(None, status="unparsed"))),
        (node("a", status="ok", value=0.0), node("b", "a")),
    ],
)
def test_nothing_to_build_on_gives_no_score(parent: Node, child: Node) -> None:
    assert score_child(parent, child, 0.5, 0.1) is None


def chain() -> SearchState:
    """A measured seed, three unmeasured nodes below it in a row, a measured one below them, and one below that."""
    state = SearchState()
    score = Score(0.5, 0.1, 0.0)
    rows = [node("a", status="ok", value=0.0)]
    rows += [node(name, above, forecast=forecast(0.2), score=score) for name, above in ("ba", "cb", "dc")]
    rows += [node("e", "d", status="ok", value=0.3, forecast=forecast(0.2))]
    rows += [node("f", "e", forecast=forecast(0.2), score=score)]
    state.nodes = {n.node_id: n for n in rows}
    return state


def test_the_highest_of_too_many_unmeasured_ones_is_measured_and_who_claims_the_record() -> None:
    state = chain()
    assert [len(unmeasured_row(state, name)) for name in "abcdef"] == [0, 1, 2, 3, 0, 1]
    assert unmeasured_row(state, "d") == ["d", "c", "b"]
    assert MOST_UNMEASURED == 2
    assert Score(0.5, 0.1, 0.0).lower < 0.3
    assert to_verify(state, "abcdef") == {"d": "b"}
    state.nodes["f"] = replace(state.nodes["f"], score=Score(0.7, 0.1, 0.0))
    assert Score(0.7, 0.1, 0.0).lower > 0.3
    assert to_verify(state, "abcf") == {"f": "f"}


def test_measuring_an_ancestor_rescores_what_depends_on_it() -> None:
    state = chain()
    state.nodes["b"] = replace(state.nodes["b"], status="ok", value=2.0)
    scores = rescored(state, ["b"], 0.5, 0.04)
    assert sorted(scores) == ["c", "d"]  # e was measured, so f stands on its own ground
    assert scores["c"] == {"log2": 2.1, "variance": 0.04, "log2_ok": 0.0}
    assert scores["d"] == {"log2": pytest.approx(2.2), "variance": 0.08, "log2_ok": 0.0}
    state.nodes["b"] = replace(state.nodes["b"], status="incorrect", value=None)
    assert rescored(state, ["b"], 0.5, 0.04) == {"c": None, "d": None}


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SearchState]:
    folder = tmp_path_factory.mktemp("speculative")
    backend = TableBackend(wait_s=0.0)
    state = run_search(CONFIG, backend, folder, mutator=NumberingMutator(6, 6), forecaster=hash_forecaster())
    return folder, state


def test_unmeasured_kernels_become_parents_at_most_two_deep(searched: tuple[Path, SearchState]) -> None:
    _, state = searched
    verified = [p for step in state.steps for p in step.verify]
    assert verified
    assert all(state.nodes[p].status is not None for p in verified)
    assert any(state.nodes[p].status is None for step in state.steps for p in step.parents)
    deepest = max(
        len(unmeasured_row(state, n.parent_node_id)) for n in state.nodes.values() if n.parent_node_id is not None
    )
    assert 1 <= deepest <= MOST_UNMEASURED
    assert state.measured == 120


def test_a_verified_kernel_is_paid_and_rescores_its_descendants(searched: tuple[Path, SearchState]) -> None:
    folder, _ = searched
    events = read_events(folder / FILE_NAME)
    changed = 0
    for i, event in enumerate(events):
        if event["kind"] != "rescored":
            continue
        before = fold(events[:i])
        assert all(before.nodes[v].status is not None for v in event["verified"])
        for node_id, row in event["scores"].items():
            changed += 1
            child = before.nodes[node_id]
            assert child.status is None
            parent = fold(events[: i + 1]).nodes[child.parent_node_id or ""]
            if row is None:
                assert parent.standing is None
            elif parent.value is not None:
                beta, variance = Calibration(**before.calibration or {}).updated(measured_pairs(before))
                assert child.forecast is not None
                assert row == vars(score_child(parent, child, beta, variance))
    assert changed


def test_every_score_follows_from_the_parent_as_it_stood(searched: tuple[Path, SearchState]) -> None:
    folder, _ = searched
    events = read_events(folder / FILE_NAME)
    chosen = [i for i, e in enumerate(events) if e["kind"] == "chosen" and e["scores"]]
    for i in chosen[:3] + chosen[-1:]:
        state, event = fold(events[:i]), events[i]
        for node_id, row in event["scores"].items():
            child = state.nodes[node_id]
            score = score_child(
                state.nodes[child.parent_node_id or ""], child, event["beta"], event["residual_variance"]
            )
            assert score is not None and row == vars(score)
            assert math.isfinite(score.lower)
