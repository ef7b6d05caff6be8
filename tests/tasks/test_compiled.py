"""The device sm_90: seeds are compiled for an H200 without one, and what could not run there is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tasks
from tasks import nvrtc
from tasks.steps import proof_steps, skipped_seeds
from tests.tasks import tiny

pytest.importorskip("torch")
pytest.importorskip("triton")

ROOT = Path(tasks.__file__).parents[1]
NARROW_DOT = """import torch
import triton
import triton.language as tl


@triton.jit
def multiply(x, w, out, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    tl.store(out + i, tl.dot(tl.load(x + i), tl.load(x + i)))


def custom_kernel(data):
    out = torch.empty_like(data[0])
    multiply[(1,)](*data, out, SIZE=8)
    return out
"""
TALL_GRID = tiny.ROWS.format(block=4).replace("scale_row[(x.shape[0],)]", "scale_row[(1, 70000)]")
FAT_BLOCK = """import torch
import triton
import triton.language as tl


@triton.jit
def multiply(x, w, out, columns, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for start in range(0, columns):
        total = tl.dot(tl.load(x + start + i), tl.load(w + start + i), total)
    tl.store(out + i, total)


def custom_kernel(data):
    out = torch.empty_like(data[0])
    multiply[(1,)](*data, out, data[0].shape[1], SIZE=128, num_stages=4, num_warps=8)
    return out
"""
WIDE_OUTPUT = "def custom_kernel(data):\n    return (data[0] * data[1]).double()\n"
CUDA = '''import torch

SOURCE = r"""
extern "C" __global__ void scale(const float* x, const float* w, float* out, int columns) {
  extern __shared__ float row[];
  for (int i = threadIdx.x; i < columns; i += blockDim.x) row[i] = x[blockIdx.x * columns + i] * w[i];
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[blockIdx.x * columns + i] = row[i];
}
"""


def custom_kernel(data):
    x, w = data
    out = torch.empty_like(x)
    kernel = torch.cuda._compile_kernel(SOURCE, "scale")
    kernel.set_shared_memory_config(1 << 16)
    kernel(grid=(x.shape[0], 1, 1), block=(128, 1, 1), args=[x, w, out, x.shape[1]], shared_mem=1 << 16)
    return out
'''


def compile_all(folder: Path, *names: str) -> dict[str, dict]:
    """Verify the tasks of a folder on sm_90 in a process of its own, which has no interpreter."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"KERNELCAST_TASKS": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tasks.verify", *names, "--device", "sm_90", "--out", "out.json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)
    assert done.returncode in (0, 1), done.stderr
    return {row["task"]: row for row in json.loads((folder / "out.json").read_text())["rows"]}


def write(task: Path, **seeds: str) -> None:
    for seed, code in seeds.items():
        (task / "seeds" / f"{seed}.py").write_text(code)


def test_what_an_h200_cannot_run_is_refused_without_one(tmp_path: Path) -> None:
    tiny.make("tiny_good", tmp_path)
    bad = tiny.make("tiny_bad", tmp_path)
    write(bad, triton_first=NARROW_DOT, triton_second=TALL_GRID, triton_third=FAT_BLOCK, torch_second=WIDE_OUTPUT)
    rows = compile_all(tmp_path, "tiny_good", "tiny_bad")
    good = rows["tiny_good"]
    assert good["ok"], good["failures"]
    assert good["proofs"] == {"cases": {"held": 6, "total": 6}, "compile": {"held": 5, "total": 5}}
    uses = {row["seed"]: row["uses"] for row in good["compiled"]}
    assert uses["torch_eager"] == "no kernel of its own"
    assert uses["triton_first"].startswith("1 kernels in ") and "0 B stack" in uses["triton_first"]
    why = {row["subject"]: row["detail"] for row in rows["tiny_bad"]["failures"]}
    assert set(why) == {"triton_first", "triton_second", "triton_third", "torch_second"}
    assert "CompilationError" in why["triton_first"] and "(line 14)" in why["triton_first"]
    assert why["triton_second"] == "scale_row: a grid of (1, 70000)"
    assert "bytes of shared memory, at most 232448 fit" in why["triton_third"]
    assert why["torch_second"].startswith("outputs [((2, 5), torch.float64)], expected [((2, 5), torch.float32)]")


@pytest.mark.skipif(not nvrtc.available(), reason=f"{nvrtc.PACKAGE} is not installed")
def test_cuda_kernels_are_compiled_too(tmp_path: Path) -> None:
    bad = tiny.make("tiny_cuda", tmp_path)
    write(bad, torch_second=CUDA, triton_second=CUDA.replace("kernel.set_shared_memory_config(1 << 16)", "pass"))
    write(bad, triton_third=CUDA.replace(") row[i] =", ") column[i] ="))
    row = compile_all(tmp_path, "tiny_cuda")["tiny_cuda"]
    uses = {entry["seed"]: entry["uses"] for entry in row["compiled"]}
    assert uses["torch_second"].endswith("0 B stack, 65536 B shared")
    why = {entry["subject"]: entry["detail"] for entry in row["failures"]}
    assert why["triton_second"] == "scale: 65536 bytes of shared memory without set_shared_memory_config"
    assert 'identifier "column" is undefined' in why["triton_third"]


@pytest.mark.skipif(not nvrtc.available(), reason=f"{nvrtc.PACKAGE} is not installed")
def test_nvrtc_names_the_kernel_or_says_what_is_wrong() -> None:
    code, name = nvrtc.compile_cuda("template <int N> __global__ void f(float* x) { x[0] *= N; }", "f<3>", 90)
    assert code[:4] == b"\x7fELF" and name == "_Z1fILi3EEvPf"
    with pytest.raises(nvrtc.NotCompiledError, match='identifier "y" is undefined'):
        nvrtc.compile_cuda("__global__ void f(float* x) { x[0] = y; }", "f", 90)


def test_without_nvrtc_cuda_seeds_are_skipped_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "MODULE", "nvidia_is_absent.cu13")
    assert not nvrtc.available()
    task = tasks.get("rms_norm")
    skipped = dict(skipped_seeds(task, "sm_90"))
    assert set(skipped) == set(task.cpu_skip) and "nvidia-cuda-nvrtc" in next(iter(skipped.values()))
    compiled = {step.subject for step in proof_steps(task, "sm_90") if step.kind == "compile"}
    assert compiled == set(tasks.seed_names("rms_norm")) - set(skipped)


@pytest.mark.slow
@pytest.mark.parametrize("name", tasks.names())
def test_every_seed_compiles_for_an_h200(name: str, tmp_path: Path) -> None:
    row = compile_all(tmp_path, name)[name]
    assert row["failures"] == []
    assert len(row["compiled"]) + len(row["skipped"]) == len(tasks.seed_names(name))
