"""What each arm measures, that arms differ in nothing else, and exact budgets."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import tasks
from benchmark.query import Forecast
from harness.search.arms import ARMS, chance, doubt, forecast_log2, log2_ok, promise
from harness.search.config import SearchConfig
from harness.search.events import FILE_NAME, read_events
from harness.search.run import run_search
from harness.search.state import SearchState
from tests.harness.search.hash_surrogate import HashSurrogate, hash_forecaster
from tests.harness.search.table_backend import NumberingMutator, TableBackend, outcome

SEEDS = tasks.seed_names("rms_norm", "train")
CONFIG = SearchConfig("s", "rms_norm", "train", SEEDS, 40, children_per_parent=6, measured_per_parent=2)
CERTAIN = Forecast((0, 0, 0, 0, 0, 0, 1, 0))


class KnowingBackend(TableBackend):
    """Tells an outcome beforehand, as a replay can."""

    def peek(self, task: str, code: str) -> object:
        return outcome(task, code)


def search(folder: Path, arm: str, surrogate: HashSurrogate | None = None, **changes: object) -> SearchState:
    asks = ARMS[arm].asks
    config = replace(CONFIG, arm=arm, surrogate="hash" if asks else None, **changes)  # type: ignore[arg-type]
    return run_search(
        config, KnowingBackend(wait_s=0.0), folder, mutator=NumberingMutator(6, 5),
        forecaster=hash_forecaster(surrogate) if asks else None,
    )  # fmt: skip


def test_a_forecast_becomes_keys_computed_by_hand() -> None:
    halves = Forecast((0, 0, 0, 0.5, 0.5, 0, 0, 0), p_fail=0.5)
    assert forecast_log2(halves) == 0.0
    assert forecast_log2(replace(halves, log2_speedup=0.7)) == 0.7
    assert log2_ok(halves) == -1.0
    assert promise(halves) == -1.0
    assert promise(replace(halves, rank_score=3.0)) == 3.0
    assert promise(CERTAIN) == 1.5
    assert promise(Forecast(None, status="error")) == promise(None) == -math.inf
    assert doubt(CERTAIN) == 0.0
    assert doubt(halves) == pytest.approx(0.5 * math.log(2) + 2 * 0.25 * math.log(4))
    assert doubt(None) == math.log(9)
    assert log2_ok(replace(CERTAIN, p_fail=1.0)) == pytest.approx(math.log2(0.01))


def test_chance_depends_on_seed_step_and_node() -> None:
    drawn = [chance(0, 1, f"s/{i}") for i in range(2000)]
    assert len({chance(0, 1, "a"), chance(1, 1, "a"), chance(0, 2, "a"), chance(0, 1, "b")}) == 4
    assert sum(drawn) / len(drawn) == pytest.approx(0.5, abs=0.03)
    assert all(0 <= x < 1 for x in drawn)


@pytest.mark.parametrize("arm", ARMS)
def test_every_arm_spends_its_budget_exactly_and_proposes_alike(tmp_path: Path, no_fsync: None, arm: str) -> None:
    state = search(tmp_path, arm)
    assert state.measured == 40 == sum(node.status is not None for node in state.nodes.values())
    assert state.completed == "budget"
    events = read_events(tmp_path / FILE_NAME)
    assert sum(e["kind"] == "measured" and e["role"] == "candidate" for e in events) == 40
    proposed = Counter((n.step, n.parent_node_id) for n in state.nodes.values() if n.step)
    full = [count for (step, _), count in proposed.items() if arm != "gpu-only" or step < state.step]
    assert set(full) == {6}
    counts = Counter((state.nodes[i].step, state.nodes[i].parent_node_id) for ids in state.chosen.values() for i in ids)
    assert all(count <= (6 if arm == "gpu-only" else 2) for count in counts.values())
    assert (state.costs.forecasts > 0) == ARMS[arm].asks == (state.costs.forecast_tokens > 0)


def keys_of(arm: str, state: SearchState, step: int) -> dict[str, float]:
    table = {
        "forecast": lambda n: promise(n.forecast),
        "doubt": lambda n: doubt(n.forecast),
        "chance": lambda n: chance(0, step, n.node_id),
        "truth": lambda n: (
            -math.inf if (m := outcome("rms_norm", n.code)).status != "ok" else 1e3 / m.cases[0].candidate_ns[0]
        ),
    }
    return {n.node_id: table[ARMS[arm].order](n) for n in state.of_step(step)}


@pytest.mark.parametrize("arm", [name for name in ARMS if name != "gpu-only"])
def test_an_arm_measures_the_first_by_its_key(tmp_path: Path, no_fsync: None, arm: str) -> None:
    state = search(tmp_path, arm)
    for step in range(1, state.step):  # the last step may lack budget
        keys = keys_of(arm, state, step)
        for parent_id in state.steps[step - 1].parents:
            children = [n.node_id for n in state.children(parent_id, step)]
            chosen = [i for i in children if i in state.chosen[step]]
            if children:
                assert len(chosen) == 2
                assert min(keys[i] for i in chosen) >= max(keys[i] for i in children if i not in chosen)


@pytest.mark.parametrize("arm", ARMS)
def test_only_arms_that_keep_have_scores(tmp_path: Path, no_fsync: None, arm: str) -> None:
    state = search(tmp_path, arm)
    scored = [n for n in state.nodes.values() if n.score is not None and n.status is None]
    assert bool(scored) == ARMS[arm].keeps
    best = state.best()
    assert best is not None and best.status == "ok"
    if not ARMS[arm].keeps:
        expanded = {p for step in state.steps for p in step.parents}
        assert all(state.nodes[p].status == "ok" for p in expanded)


def test_a_step_asks_once_about_what_is_shown_and_no_more(tmp_path: Path, no_fsync: None) -> None:
    surrogate = HashSurrogate()
    state = search(tmp_path, "filter", surrogate)
    assert surrogate.calls == sum(bool(ids) for ids in state.step_nodes[1:])
    assert len({q.query_id for q in surrogate.asked}) == len(surrogate.asked) == state.costs.forecasts
    query = surrogate.asked[0]
    assert (query.track, query.anchor_kind, query.task, query.hardware) == ("end-to-end", "parent", "rms_norm", "table")
    assert query.anchor_time_us is not None and query.anchor_time_us < 5
    assert "s/" not in query.query_id
    assert query.facts["cases"][0]["params"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arm": "greedy"}, "unknown arm 'greedy'; known arms: gpu-only, speculative"),
        ({"arm": "filter"}, "arm 'filter' follows a surrogate; name one with --surrogate"),
        ({"surrogate": "gbdt"}, "arm 'gpu-only' asks no surrogate; leave 'gbdt' out"),
        (
            {"arm": "random", "measured_per_parent": 7},
            "measured_per_parent is 7, expected at most children_per_parent, which is 6",
        ),
        ({"selection": "best"}, "unknown selection 'best'; known selections: puct, uniform"),
    ],
)
def test_a_wrong_configuration_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **changes)  # type: ignore[arg-type]


def test_the_oracle_needs_results_beforehand(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="knows the results beforehand; use backend replay"):
        run_search(replace(CONFIG, arm="oracle"), TableBackend(), tmp_path, mutator=NumberingMutator())
