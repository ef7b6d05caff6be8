"""The campaign files of h200-v1 ask for what the release has to hold, with room for kernels that fail."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import tasks
from harness.search.campaign import load_campaign
from harness.search.config import SearchConfig

FILES = ("seen", "paper", "unseen", "trees")
SHARE_OK = 0.87  # of the kernels of h200-v0, 90% were right


@pytest.fixture(scope="module")
def plan(root: Path) -> dict[str, list[SearchConfig]]:
    folder = root / "harness" / "search" / "campaigns"
    return {name: load_campaign(folder / f"h200-v1-{name}.toml") for name in FILES}


def test_it_is_large_enough(plan):
    configs = [config for part in plan.values() for config in part]
    assert SHARE_OK * sum(config.budget for config in configs) >= 12_388
    assert len({config.search_id for config in configs}) == len(configs) >= 180
    measured, for_testing = Counter(), Counter()
    for config in configs:
        measured[config.task] += config.budget
        if config.split.startswith("test"):
            for_testing[config.task] += config.budget
    assert set(measured) == set(tasks.names())
    assert SHARE_OK * min(measured.values()) >= 300
    assert SHARE_OK * min(for_testing.values()) >= 100
    assert SHARE_OK * min(measured[config.task] for config in plan["paper"]) >= 500


def test_every_task_is_tested_by_three_searches_from_two_disjoint_sets_of_seeds(plan):
    searches: dict[str, list[tuple[str, ...]]] = {}
    for config in (config for part in plan.values() for config in part):
        if config.split.startswith("test"):
            searches.setdefault(config.task, []).append(config.seeds)
    for task, seeds in searches.items():
        assert len(seeds) >= 3, task
        assert any(set(a).isdisjoint(b) for a in seeds for b in seeds), task


def test_training_never_sees_two_families(plan):
    unseen = {config.task for config in plan["unseen"]}
    seen = {config.task for name in ("seen", "paper", "trees") for config in plan[name]}
    assert len(unseen) >= 5
    assert unseen.isdisjoint(seen)
    families = {tasks.get(task).family for task in unseen}
    assert len(families) == 2
    assert families.isdisjoint(tasks.get(task).family for task in seen)


def test_replay_trees_are_grown_with_no_regard_to_speed(plan):
    assert len(plan["trees"]) >= 4
    for config in plan["trees"]:
        assert (config.selection, config.split, config.arm) == ("uniform", "test", "gpu-only")
        assert SHARE_OK * config.budget * 1.05 >= 1_200
        assert config.children_per_parent >= 8
