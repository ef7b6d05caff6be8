"""Campaign files, the division of seeds, resuming under a deadline, and errors of single searches."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness.search
import tasks
from harness.search.campaign import divide_seeds, load_campaign, run_campaign
from harness.search.events import FILE_NAME, read_events
from harness.search.progress import Progress
from harness.search.run import run_search
from harness.search.state import fold
from tests.harness.search.table_backend import NumberingMutator, TableBackend

GRID = """
tasks = ["fp8_quant"]
[search]
children_per_parent = 2
seed = 7
[splits.train]
searches = 2
budget = 10
[splits.validation]
searches = 1
budget = 8
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(GRID, encoding="utf-8")
    return path


def test_searches_of_a_split_start_from_disjoint_seeds(grid: Path) -> None:
    first, second, third = load_campaign(grid)
    assert [c.search_id for c in (first, second, third)] == [
        "fp8_quant-train-0", "fp8_quant-train-1", "fp8_quant-validation-0",
    ]  # fmt: skip
    assert not set(first.seeds) & set(second.seeds)
    assert set(first.seeds) | set(second.seeds) == set(tasks.seed_names("fp8_quant", "train"))
    assert (first.seed, second.seed, first.children_per_parent) == (7, 8, 2)


def test_too_few_seeds_are_shared() -> None:
    assert divide_seeds(("a", "b", "c"), 2) == [("a", "c"), ("b",)]
    assert divide_seeds(("a",), 2) == [("a",), ("a",)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("budget = 8", "budget = 0", r"\[splits.validation\]: 'budget' is 0, expected an integer from 1"),
        ("budget = 8", "budgets = 8", "unknown field 'budgets'; known fields: budget, repeats, searches"),
        ("[search]", "arms = ['greedy']\n[search]", "grid.toml: .*unknown arm 'greedy'; known arms: gpu-only"),
        ("[search]", "arms = ['filter']\n[search]", "grid.toml: .*arm 'filter' follows a surrogate"),
        ("[search]", "arms = 'random'\n[search]", "'arms' is 'random', expected a list of names"),
        ("seed = 7", "selection = 'speed'", "grid.toml: .*unknown selection 'speed'; known selections: puct, uniform"),
        ("seed = 7", "sead = 7", r"\[search\]: unknown field 'sead'"),
        ('["fp8_quant"]', '["fp8_kwant"]', "Did you mean 'fp8_quant'"),
        ('tasks = ["fp8_quant"]', "", "expected a list 'tasks'"),
        ("budget = 8", "budget = ", "not a TOML file"),
        ("splits.train", "splits.tests", "has no seeds for split 'tests'"),
    ],
)
def test_a_bad_campaign_file_is_refused(grid: Path, old: str, new: str, message: str) -> None:
    grid.write_text(GRID.replace(old, new), encoding="utf-8")
    with pytest.raises((ValueError, KeyError), match=message):
        load_campaign(grid)


def test_the_shipped_campaign_has_five_searches_per_task() -> None:
    configs = load_campaign(Path(harness.search.__file__).parent / "campaigns" / "h200-v0.toml")
    by_task = {name: [c.split for c in configs if c.task == name] for name in tasks.names()}
    assert all(
        sorted(splits) == ["test", "test", "train", "train", "validation"] for splits in by_task.values() if splits
    )
    assert len({c.search_id for c in configs}) == len(configs)


def test_a_campaign_continues_after_its_deadline(grid: Path, tmp_path: Path) -> None:
    configs = load_campaign(grid)
    lines: list[str] = []
    backend = TableBackend()
    outcomes = run_campaign(configs, backend, tmp_path / "cut", seconds=0.0, report=lines.append)
    assert {o.reason for o in outcomes} == {"interrupted"}
    assert not backend.submitted
    for seconds in (0.12, 0.24, None):
        outcomes = run_campaign(configs, TableBackend(1), tmp_path / "cut", seconds=seconds, report=lines.append)
    run_campaign(configs, TableBackend(2), tmp_path / "straight")
    assert [(o.reason, o.measured) for o in outcomes] == [("budget", 10), ("budget", 10), ("budget", 8)]
    for config in configs:
        ends = [fold(read_events(tmp_path / way / config.search_id / FILE_NAME)) for way in ("cut", "straight")]
        assert ends[0] == ends[1]
    assert lines[-1].startswith("[28/28]")
    assert "% ok" in lines[-1]
    assert "fp8_quant-train-0=" in lines[-1]


def test_an_error_stops_its_own_search_only(grid: Path, tmp_path: Path) -> None:
    configs = load_campaign(grid)
    (tmp_path / configs[0].search_id).mkdir()
    (tmp_path / configs[0].search_id / FILE_NAME).write_text("damaged\n", encoding="utf-8")
    outcomes = run_campaign(configs, TableBackend(), tmp_path)
    assert [o.reason for o in outcomes] == ["error", "budget", "budget"]
    assert "line 1: not a JSON object" in str(outcomes[0].error)


def test_a_grid_has_every_arm_and_repeat_with_its_own_name_and_seed(grid: Path) -> None:
    text = GRID.replace("[search]", 'arms = ["gpu-only", "random", "filter"]\nsurrogate = "gbdt"\n[search]')
    grid.write_text(text.replace("budget = 8", "budget = 8\nrepeats = 3"), encoding="utf-8")
    configs = load_campaign(grid)
    assert len(configs) == 3 * (2 + 3) == len({c.search_id for c in configs})
    named = {c.search_id: c for c in configs}
    assert named["fp8_quant-validation-2-random"].seed == 9
    assert named["fp8_quant-validation-2-random"].seeds == named["fp8_quant-validation-0"].seeds
    assert {c.surrogate for c in configs if c.arm == "filter"} == {"gbdt"}
    assert {c.surrogate for c in configs if c.arm != "filter"} == {None}


def test_a_tree_for_replay_is_grown_independently_of_speed(grid: Path, tmp_path: Path, no_fsync: None) -> None:
    text = GRID.replace("seed = 7", "selection = 'uniform'\nmeasure_parents_again = false")
    grid.write_text(text.replace("budget = 8", "budget = 300"), encoding="utf-8")
    config = load_campaign(grid)[2]
    assert config.search_id == "fp8_quant-validation-0-uniform"
    state = run_search(config, TableBackend(wait_s=0.0), tmp_path / "tree", mutator=NumberingMutator(2, 9))
    expanded = [parent for step in state.steps for parent in step.parents]
    assert len(expanded) == len(set(expanded)) > 60
    assert not state.anchors and state.measured == 300
    assert all(state.nodes[p].status == "ok" for p in expanded)
    # By rank among what was correct when the step began, the drawn ones stand in the middle.
    ranks = []
    for number, step in enumerate(state.steps, 1):
        pool = sorted(n.value for n in state.nodes.values() if n.value is not None and n.step < number)
        ranks += [pool.index(state.nodes[p].value) / max(1, len(pool) - 1) for p in step.parents]
    assert 0.35 < sum(ranks) / len(ranks) < 0.65


def test_time_left_leaves_out_what_will_never_run() -> None:
    progress = Progress({"a": 10, "b": 10})
    line = progress.line(None)
    assert line.startswith("[0/20]")
    assert "nothing measured" in line
    assert "? left" in line
