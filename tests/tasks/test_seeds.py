"""Seed kernels in Triton's interpreter: one small case each here, all proofs in the slow tier."""

from __future__ import annotations

import ast
import io
import os
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import tasks
from tasks.compare import mismatch, rms
from tasks.proofs import OTHER_SEED, Bench, Proof, seed_path
from tasks.report import Report, show
from tasks.steps import prepare
from tasks.verify import verify

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

ROOT = Path(tasks.__file__).parents[1]
SEEDS = [(name, seed) for name in tasks.names() for seed in tasks.seed_names(name)]
INTERPRETED = [(name, seed) for name, seed in SEEDS if seed not in tasks.get(name).cpu_skip]


@pytest.mark.parametrize(("name", "seed"), INTERPRETED)
def test_a_seed_passes_a_small_case(name: str, seed: str) -> None:
    bench = Bench(tasks.get(name), "cpu")
    case = min((c for c in tasks.get(name).check_cases if c.cpu), key=lambda c: c.bytes)
    assert bench.attempt(tasks.load_kernel(seed_path(name, seed)), case) is None


@pytest.mark.parametrize(("name", "seed"), SEEDS)
def test_a_seed_says_nothing_but_code(name: str, seed: str) -> None:
    code = tasks.seed_code(name, seed)
    comments = [t.string for t in tokenize.generate_tokens(io.StringIO(code).readline) if t.type == tokenize.COMMENT]
    assert comments == []
    tree = ast.parse(code)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert [argument.arg for argument in functions["custom_kernel"].args.args] == ["data"]
    assert not any(ast.get_docstring(node) for node in [tree, *functions.values()])
    assert "synchronize" not in code and ".item()" not in code and ".cpu()" not in code


@pytest.mark.parametrize("name", tasks.names())
def test_seeds_without_interpreter_are_cuda(name: str) -> None:
    for seed, reason in tasks.get(name).cpu_skip.items():
        assert reason
        assert "torch.cuda._compile_kernel" in tasks.seed_code(name, seed)


@pytest.mark.parametrize("name", tasks.names())
def test_trivial_answers_fail_a_small_case(name: str) -> None:
    case = min((c for c in tasks.get(name).check_cases if c.cpu), key=lambda c: c.bytes)
    proofs = Bench(tasks.get(name), "cpu").prove_case(case)
    assert {proof.kind for proof in proofs} == {"inputs", "cases", "reference", "trivial"}
    assert [proof for proof in proofs if not proof.passed] == []


@pytest.mark.parametrize(("name", "rtol", "atol"), [("cross_entropy", 1e-2, 1e-3), ("fp8_quant", 1e-3, 1e-3)])
def test_tolerances_are_tighter_than_the_published_ones(name: str, rtol: float, atol: float) -> None:
    bench = Bench(tasks.get(name), "cpu")
    for case in (c for c in bench.task.check_cases if c.cpu):
        expected = bench.functions.oracle(bench.inputs(case))
        for values, tolerance in zip(expected, bench.task.tolerances(case.params), strict=True):
            assert tolerance.rtol < rtol and tolerance.atol * rms(values) < atol


def test_the_proofs_notice_a_kernel_that_breaks_the_contract() -> None:
    bench = Bench(tasks.get("rms_norm"), "cpu")
    case = bench.task.check_cases[0]

    def overwrites(data):
        out = bench.functions.reference(data)
        data[0].zero_()
        return out

    def lends_its_input(data):
        return data[0].copy_(bench.functions.reference((data[0].clone(), data[1])))

    def raises(data):
        raise RuntimeError("no such kernel")

    assert bench.attempt(overwrites, case) == "input 0 was changed"
    assert bench.attempt(lends_its_input, case) == "input 0 was changed"
    assert bench.attempt(lambda data: data[0], case) == "output 0 lies in the memory of an input"
    assert bench.attempt(raises, case) == "RuntimeError: no such kernel"
    assert not bench._exposed("raises", raises, [case]).passed
    assert not bench._exposed("right", bench.functions.reference, [case]).passed


def test_a_failed_proof_is_reported() -> None:
    report = Report(
        "t", "cpu", (Proof("seed", "a: b", True), Proof("wrong", "w", False, "passes")), (("c", "why"),), 0.2
    )
    assert not report.ok
    assert report.to_json()["ok"] is False
    assert show(report).splitlines() == [
        "t: wrong w: passes", "t: seed c not run: why", "t: 1 of 2 proofs hold on cpu (0 s)",
    ]  # fmt: skip


def test_the_mode_of_triton_has_to_fit_the_device() -> None:
    with pytest.raises(ValueError, match="unknown device 'tpu'"):
        prepare("tpu")
    prepare("cpu")
    with pytest.raises(ValueError, match="start Python without TRITON_INTERPRET for device 'cuda'"):
        prepare("cuda")


def test_triton_that_was_imported_too_early_is_an_error() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    code = "import triton, os; os.environ['TRITON_INTERPRET'] = '1'; from tasks.steps import prepare; prepare('cpu')"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert "start Python with TRITON_INTERPRET=1 set for device 'cpu'" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", tasks.names())
def test_every_proof_holds_in_the_interpreter(name: str) -> None:
    assert verify(name, "cpu").failures == ()


REDUNDANT = {"segmented_sum": {2}}  # ids and offsets say the same, and the reference reads one of them


@pytest.mark.slow
@pytest.mark.parametrize("name", tasks.names())
def test_every_input_changes_the_answer_of_some_case(name: str) -> None:
    bench = Bench(tasks.get(name), "cpu")
    read = set(range(len(bench.inputs(bench.task.check_cases[0])))) - set(bench.task.writes)
    idle = set(read)
    for case in (case for case in bench.task.check_cases if case.cpu):
        expected, like = bench.truth(case)
        for place in sorted(idle):
            data, other = bench.inputs(case), bench.inputs(case, OTHER_SEED)
            with torch.no_grad():
                answer = bench.functions.reference((*data[:place], other[place], *data[place + 1 :]))
            if mismatch(answer, expected, bench.task.tolerances(case.params), like):
                idle.discard(place)
    assert idle == REDUNDANT.get(name, set())


@pytest.mark.slow
def test_the_command_runs_by_itself(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "tasks.verify", "rms_norm", "--out", str(out)]
    first = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    assert "proofs hold on cpu" in first.stdout
    assert '"ok": true' in out.read_text()
    again = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert again.returncode == 2 and "--overwrite" in again.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("name", tasks.names())
def test_every_proof_holds_on_a_gpu(name: str) -> None:
    command = [sys.executable, "-m", "tasks.verify", name, "--device", "cuda"]
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
