"""Problems of KernelBench and GPU MODE, read as tasks and measured by the real engine on the CPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import tasks
from harness.measure import Measurement, open_backend
from tasks import adapters
from tasks.adapters import packing
from tasks.adapters.describe import describe

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
pytest.importorskip("yaml")

PROBLEMS = Path(__file__).with_name("problems")
LINEAR = f"kernelbench:{PROBLEMS / 'linear_relu.py'}"
SCALE = f"gpu_mode:{PROBLEMS / 'scale'}"
BATCH_NORM = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(6)
        self.register_buffer("shift", torch.arange(6.0))

    def forward(self, x):
        return self.norm(x) + self.shift, x.argmax(1)


def get_inputs():
    return [torch.randn(9, 6)]


def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    with open_backend("cpu", workers=2) as backend:
        yield backend


def measured(engine: Any, task: str, *codes: str) -> list[Measurement]:
    futures: list[Future[Measurement]] = [engine.submit(task, code) for code in codes]
    return [future.result(120) for future in futures]


def candidate(name: str) -> str:
    return (PROBLEMS / f"{name}.py").read_text()


def test_kernelbench_candidates_are_judged(engine: Any) -> None:
    renamed = candidate("linear_relu").replace("class Model(", "class ModelNew(")
    stale = renamed.replace(
        "        self.scale =", "        self.kept = self.linear.weight.detach().clone()\n        self.scale ="
    )
    stale = stale.replace("self.linear(x)", "torch.nn.functional.linear(x, self.kept, self.linear.bias)")
    right = candidate("linear_relu_right")
    reshaped = right.replace("torch.empty(outputs, features)", "torch.empty(features, outputs)")
    found = measured(engine, LINEAR, right, renamed, candidate("linear_relu_wrong"), stale, "x = 1\n", reshaped)
    assert [m.status for m in found] == ["ok", "ok", "incorrect", "incorrect", "runtime", "runtime"]
    assert "case inputs: output 0:" in found[2].error and "case inputs: output 0:" in found[3].error
    assert found[4].error.endswith("a KernelBench candidate defines a class ModelNew; this file does not")
    assert "ModelNew has the weights" in found[5].error
    assert found[0].task == LINEAR


def test_gpu_mode_candidates_are_judged(engine: Any) -> None:
    shifted = candidate("scale_right").replace('options["factor"]', 'options["factor"] + 1e-4')
    changes = "def custom_kernel(data):\n    data[0].zero_()\n    return data[1].zero_()\n"
    found = measured(engine, SCALE, candidate("scale_right"), candidate("scale_wrong"), shifted, "x = 1\n", changes)
    assert [m.status for m in found] == ["ok", "incorrect", "incorrect", "runtime", "incorrect"]
    assert found[1].error == "case rows=8,columns=1,factor=3: the output does not match the reference"
    assert found[3].error.endswith("defines a function custom_kernel(data); this file does not")
    assert "input 0 was changed" in found[4].error


def test_a_kernelbench_problem_as_a_task() -> None:
    task = tasks.get(LINEAR)
    assert (task.name, task.seeds, task.twins) == (LINEAR, {}, False)
    (case,) = task.check_cases
    weights = 17 * 33 + 17 + 17
    assert (case.bytes, case.cpu) == (4 * (7 * 33 + weights + 7 * 17), True) and case.flops == 2 * 7 * 33 * 17
    assert [(t.rtol, t.atol) for t in task.tolerances({})] == [(1e-4, 1e-4)]
    assert "float64" in task.notes and "class Model" in tasks.reference_code(LINEAR)
    functions = tasks.implementation(LINEAR)
    draws = [functions.make_inputs(torch.Generator().manual_seed(seed), "cpu") for seed in (3, 3, 4)]
    assert [tuple(value.shape) for value in draws[0]] == [(7, 33), (17,), (17, 33), (17,)]
    assert all(map(torch.equal, draws[0], draws[1])) and not any(map(torch.equal, draws[0], draws[2]))
    x, scale, weight, bias = (value.double() for value in draws[0])
    assert not bool((scale == 1.0).any())
    (expected,) = functions.oracle(draws[0])
    assert torch.allclose(expected, torch.relu(x @ weight.t() + bias) * scale * 1.5, rtol=1e-12, atol=0.0)
    (found,) = functions.reference(draws[0])
    assert found.dtype == torch.float32 and torch.allclose(found.double(), expected, rtol=1e-5, atol=1e-6)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Describe problems in this process, which has loaded torch already."""
    monkeypatch.setattr(adapters, "_ask", lambda name, path: json.loads(json.dumps(describe(name))))


@pytest.mark.usefixtures("here")
def test_statistics_of_a_norm_are_no_data(tmp_path: Path) -> None:
    (tmp_path / "norm.py").write_text(BATCH_NORM)
    name = f"kernelbench:{tmp_path / 'norm.py'}"
    functions = tasks.implementation(name)
    data = functions.make_inputs(torch.Generator().manual_seed(1), "cpu")
    assert [tuple(value.shape) for value in data] == [(9, 6), (6,), (6,), (6,)]
    assert torch.equal(data[-1], torch.arange(6.0)) or torch.equal(data[1], torch.arange(6.0))
    first, second = functions.reference(data), functions.reference(data)
    assert torch.equal(first[0], second[0])
    assert [t.rtol for t in tasks.get(name).tolerances({})] == [1e-4, 0.0]


@pytest.mark.usefixtures("here")
def test_a_model_that_cannot_be_widened_is_its_own_oracle(tmp_path: Path) -> None:
    text = BATCH_NORM.replace("self.norm(x)", "self.norm(x) @ torch.eye(6, dtype=torch.float32, device=x.device)")
    (tmp_path / "fixed.py").write_text(text)
    name = f"kernelbench:{tmp_path / 'fixed.py'}"
    functions = tasks.implementation(name)
    data = functions.make_inputs(torch.Generator().manual_seed(1), "cpu")
    expected, found = functions.oracle(data)[0], functions.reference(data)[0]
    assert expected.dtype == torch.float64 and torch.equal(expected, found.double())


def test_a_gpu_mode_problem_as_a_task() -> None:
    task = tasks.get(SCALE)
    assert [case.case_id for case in task.check_cases] == ["rows=3,columns=5,factor=2", "rows=8,columns=1,factor=3"]
    assert [case.bytes for case in task.timing_cases] == [2 * 4 * 320]
    assert task.writes == (1,) and task.statement.startswith("Transpose a matrix")
    assert "check_implementation decides" in task.notes and task.tolerances({}) == ()
    functions = tasks.implementation(SCALE)
    data = functions.make_inputs(torch.Generator().manual_seed(3), "cpu", **task.check_cases[0].params)
    assert [tuple(value.shape) for value in data] == [(5, 3), (5, 3)] and data[0].is_contiguous()
    (out,) = functions.reference(data)
    assert torch.equal(out, data[0] * 2)
    assert functions.check(data, (out,)) is None
    assert functions.check(data, (out + 1e-3,)) == "the output does not match the reference"


@pytest.fixture
def scale(tmp_path: Path) -> Path:
    shutil.copytree(PROBLEMS / "scale", tmp_path / "scale")
    shutil.copy(PROBLEMS / "utils.py", tmp_path)
    return tmp_path / "scale"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.usefixtures("here")
def test_without_a_check_of_its_own_a_problem_has_an_oracle_and_the_tolerance_of_its_yaml(scale: Path) -> None:
    edit(scale / "reference.py", "check_implementation = ", "unused = ")
    edit(scale / "task.yml", "lang:", "rtol: 0.002\nlang:")
    task = tasks.get(f"gpu_mode:{scale}")
    assert [(t.rtol, t.atol) for t in task.tolerances({})] == [(0.002, 1e-4)]
    functions = tasks.implementation(task.name)
    data = functions.make_inputs(torch.Generator().manual_seed(3), "cpu", **task.check_cases[0].params)
    assert not hasattr(functions, "check") and "float64" in task.notes
    assert torch.equal(functions.oracle(data)[0], data[0].double() * 2)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("task.yml", "tests:", "trials:", "task.yml: expected a list of cases under 'tests'"),
        ("task.yml", "lang:", "lang: [", "task.yml: not YAML"),
        ("reference.py", "def generate_input", "def generate", "missing: generate_input"),
        ("reference.py", "from utils", "from helpers", "reference.py: ModuleNotFoundError: No module named 'helpers'"),
        ("reference.py", "out[...] = x.t()", "out[...] = out + x.t()", "updates an input in place"),
        ("reference.py", "out[...] = x.t()", "out[...] = torch.rand_like(out)", "another result the second time"),
        ("task.yml", '"rows": 8, "columns": 1', '"rows": 3, "columns": 5', "different plain values"),
        ("reference.py", '{"factor": factor}', "{'factor': object()}", "generate_input()[2]['factor'] is a object"),
    ],
)  # fmt: skip
def test_a_faulty_gpu_mode_problem_is_one_line(scale: Path, file: str, old: str, new: str, words: str) -> None:
    edit(scale / file, old, new)
    with pytest.raises(ValueError) as caught:
        tasks.get(f"gpu_mode:{scale}")
    assert words in str(caught.value) and "\n" not in str(caught.value) and str(scale) in str(caught.value)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def get_init_inputs", "def init_inputs", "missing: get_init_inputs"),
        ("class Model", "clas Model", "problem.py:7: invalid syntax"),
        ("import torch.nn as nn", "import torch.nn as nn, absent_module", "No module named 'absent_module'"),
        ("return [33, 17]", "return [33, object()]", "get_init_inputs returns more than plain values"),
        ("nn.Linear(features, outputs)", "nn.Dropout(0.5)", "Model.linear is a dropout with p > 0"),
        ("return torch.relu", "return 1.0 or torch.relu", "Model returns a float"),
        ("torch.rand(7, 33)", "torch.rand(7, 34)", "RuntimeError"),
    ],
)  # fmt: skip
def test_a_faulty_kernelbench_problem_is_one_line(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "problem.py"
    shutil.copy(PROBLEMS / "linear_relu.py", path)
    edit(path, old, new)
    with pytest.raises(ValueError) as caught:
        tasks.get(f"kernelbench:{path}")
    assert words in str(caught.value) and "\n" not in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kernelbench:absent.py", "absent.py: no such file; a KernelBench problem is a Python file"),
        ("gpu_mode:absent", "absent: no such folder; a GPU MODE problem is a folder with task.yml and reference.py"),
        ("gpu_mode:.", "a GPU MODE problem has task.yml, which is missing"),
        ("bench:x", "unknown problem format 'bench' in task 'bench:x'; known formats: kernelbench, gpu_mode"),
    ],
)
def test_a_path_that_leads_nowhere_is_one_line(
    name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as caught:
        tasks.get(name)
    assert words in str(caught.value)


def test_a_relative_path_becomes_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PROBLEMS)
    assert adapters.canonical("gpu_mode:scale") == SCALE
    assert tasks.get("gpu_mode:scale").name == SCALE


def test_yaml_is_named_where_it_is_missing(scale: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ValueError, match=r"task\.yml: reading it needs the package pyyaml"):
        tasks.get(f"gpu_mode:{scale}")


@pytest.mark.slow
def test_the_command_measures_problems(root: Path) -> None:
    for task, name in (("kernelbench:linear_relu.py", "linear_relu"), ("gpu_mode:scale", "scale")):
        files = [f"{name}_right.py", f"{name}_wrong.py"]
        line = [sys.executable, "-m", "harness.cli", "measure", *files, "--task", task, "--backend", "cpu", "--json"]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        done = subprocess.run(line, cwd=PROBLEMS, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        assert [row["status"] for row in json.loads(done.stdout)["rows"]] == ["ok", "incorrect"]


def test_packing_keeps_nesting_and_memory_order() -> None:
    matrix = torch.arange(6.0).view(2, 3)
    data = (matrix.t(), [1, {"k": matrix, 2: None}], "text", matrix[:, ::2])
    tensors: list[torch.Tensor] = []
    form = json.loads(json.dumps(packing.pack(data, "data", tensors)))
    assert len(tensors) == 3 and all(tensor.is_contiguous() for tensor in tensors)
    again = packing.unpack(form, iter(tensors))
    assert isinstance(again, tuple) and again[0].stride() == (1, 3) and torch.equal(again[0], data[0])
    assert again[1][0] == 1 and torch.equal(again[1][1]["k"], matrix) and again[1][1][2] is None
    assert again[2] == "text" and torch.equal(again[3], data[3])
