"""The registry: discovery by folder, no torch on import, and what forecasters see of a reference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tasks
from benchmark.code_view import language_of
from tasks.extract import definition_closure
from tasks.spec import FAMILIES, SEED_SPLITS, SOURCES, Task
from tasks.steps import case_list

ROOT = Path(tasks.__file__).parents[1]


def test_every_folder_with_a_task_file_is_a_task() -> None:
    folders = {path.parent.name for path in (ROOT / "tasks").glob("*/task.py")}
    assert set(tasks.names()) == folders
    assert {"rms_norm", "cross_entropy", "fp8_quant"} <= folders
    assert list(tasks.names()) == sorted(tasks.names())


def test_importing_the_registry_loads_no_torch() -> None:
    code = (
        "import sys, tasks; [tasks.get(n) for n in tasks.names()]; [tasks.reference_code(n) for n in tasks.names()]; "
        "print(sorted({'torch', 'triton', 'numpy'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_unknown_names_are_answered_with_the_closest_one() -> None:
    with pytest.raises(tasks.UnknownTaskError, match=r"unknown task 'rmsnorm'\. Did you mean 'rms_norm'\?"):
        tasks.get("rmsnorm")
    with pytest.raises(KeyError, match="Did you mean 'triton_row'"):
        tasks.seed_code("rms_norm", "triton_rov")
    with pytest.raises(ValueError, match="no seeds for split 'dev'; it has train, validation, test"):
        tasks.seed_names("rms_norm", "dev")


@pytest.mark.parametrize("name", tasks.names())
def test_a_task_is_complete(name: str) -> None:
    task = tasks.get(name)
    assert isinstance(task, Task)
    assert task.source in SOURCES
    assert task.family in FAMILIES
    assert "\n" not in task.statement
    assert [proof for proof in case_list(task) if not proof.passed] == []


@pytest.mark.parametrize("name", tasks.names())
def test_every_split_has_several_algorithms_and_languages(name: str) -> None:
    paper = tasks.get(name).source == "gpu_mode" or name == "rms_norm"
    assert tuple(tasks.get(name).seeds) == SEED_SPLITS
    for split, least in zip(SEED_SPLITS, (3, 2, 3) if paper else (2, 1, 2), strict=True):
        assert len(tasks.seed_names(name, split)) >= least
    seeds = tasks.seed_names(name)
    assert len(seeds) >= (8 if paper else 5)
    assert len({language_of(tasks.seed_code(name, seed)) for seed in seeds}) >= 2


def test_the_cases_that_are_timed() -> None:
    timed = {name: [case.case_id for case in tasks.get(name).timing_cases] for name in tasks.names()}
    assert timed["cross_entropy"] == ["4096x32000", "4096x50264", "4096x128256"]
    assert "4096x7168-g128" in timed["fp8_quant"]
    assert "4096x8192-bf16" in timed["rms_norm"]


PAPER = {
    "trimul": [
        (256, 2, 128, "open", "normal"), (768, 1, 128, "open", "cauchy"), (256, 2, 384, "masked", "normal"),
        (512, 1, 128, "open", "normal"), (1024, 1, 128, "open", "cauchy"), (768, 1, 384, "masked", "normal"),
        (1024, 1, 384, "open", "normal"),
    ],
    "cross_entropy": [(4096, 32000, "normal"), (4096, 50264, "normal"), (4096, 128256, "normal")],
    "fp8_quant": [(256, 4096, 128, "mixed"), (256, 8192, 128, "mixed"), (4096, 7168, 128, "mixed")],
    "gdn_recompute_w_u": [(1, 64, 1, 64, 64, "mixed"), (2, 512, 3, 64, 64, "mixed"), (2, 1024, 3, 64, 64, "mixed")],
    "gdn_chunk_fwd_h": [(2, 512, 3, 64, 64, "mixed"), (2, 1024, 3, 64, 64, "mixed")],
    "gdn_chunk_fwd_o": [(1, 64, 1, 64, 64, "mixed"), (2, 512, 3, 64, 64, "mixed"), (2, 1024, 3, 64, 64, "mixed")],
}  # fmt: skip


def test_the_paper_s_tasks_have_its_shapes_as_a_timing_set() -> None:
    assert {name for name in tasks.names() if tasks.get(name).source == "gpu_mode"} == set(PAPER)
    for name in tasks.names():
        sets = tasks.get(name).timing_sets
        assert set(sets) == {"h200", "small", *(["paper"] if name in PAPER else [])}
        assert [tuple(case.params.values()) for case in sets.get("paper", ())] == PAPER.get(name, [])


def test_every_case_counts_once() -> None:
    task = tasks.get("fp8_quant")
    assert len(task.all_cases) == len(task.check_cases) + len(task.timing_cases)
    assert tasks.get("cross_entropy").timing_sets["small"] == tasks.get("cross_entropy").timing_cases


def test_reference_code_stands_alone() -> None:
    torch = pytest.importorskip("torch")
    for name in tasks.names():
        code = tasks.reference_code(name)
        assert "make_inputs" not in code and "oracle" not in code
        space: dict = {}
        exec(compile(code, name, "exec"), space)
        functions = tasks.implementation(name)
        case = next(case for case in tasks.get(name).check_cases if case.cpu)
        draws = [functions.make_inputs(torch.Generator().manual_seed(3), "cpu", **case.params) for _ in range(2)]
        answers = [space["reference"](draws[0]), functions.reference(draws[1])]
        for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in answers], strict=True):
            assert torch.equal(a, b)


def test_definition_closure_takes_what_a_function_reaches_and_no_more() -> None:
    source = (
        "from __future__ import annotations\nimport math\nimport os\n\nBASE = 2\nUNUSED = 3\nLIMIT: int = BASE + 1\n\n"
        "def helper(x):\n    return math.sqrt(x) + LIMIT\n\ndef other():\n    return os.name\n\n"
        "@staticmethod\ndef wanted(x):\n    return helper(x)\n"
    )
    cut = definition_closure(source, "wanted")
    assert cut.splitlines()[0] == "import math"
    assert "BASE = 2" in cut and "LIMIT: int" in cut and "def helper" in cut and "@staticmethod\ndef wanted" in cut
    assert "UNUSED" not in cut and "os" not in cut.replace("abs", "") and "other" not in cut
    with pytest.raises(ValueError, match="does not define 'absent'"):
        definition_closure(source, "absent")
