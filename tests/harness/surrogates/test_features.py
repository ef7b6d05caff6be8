"""What the static features count."""

from __future__ import annotations

import pytest

from benchmark.query import Query
from harness.surrogates.features import constants, role, source_features
from harness.surrogates.query_features import matrix, query_features, varying_features

TRITON = """
import torch
import triton
import triton.language as tl

ROW_BLOCK = 4 * 256
NUM_WARPS = 8

@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(y_ptr + at, tl.exp(x), mask=at < n)
    tl.store(y_ptr + row, tl.load(x_ptr + row))

def custom_kernel(data):
    y = torch.empty_like(data[0])
    scale[(8,)](data[0], y, 7, BLOCK=ROW_BLOCK, num_warps=NUM_WARPS, num_stages=2)
    scale[(8,)](y, y, 7, BLOCK=64, num_warps=4, num_stages=2)
    return y.mul_(2)
"""
CUDA = '''
import torch
THREADS = 256
SOURCE = r"""
#define VEC 4
constexpr int TILE = 32;
extern "C" __global__ void f(const float* x, float* y) {
  __shared__ float s[TILE];
  for (int i = threadIdx.x; i < 1024; i += 256) {
    float4 v = reinterpret_cast<const float4*>(x)[i];
    s[i] = __expf(v.x);
  }
  __syncthreads();
}
"""
def custom_kernel(data):
    k = torch.cuda._compile_kernel(SOURCE, "f", nvcc_options=["--use_fast_math", "--maxrregcount=64"])
    k(grid=(1, 1, 1), block=(THREADS, 1, 1), args=[])
'''


def test_a_triton_source() -> None:
    f = source_features(TRITON)
    assert (f["jit"], f["functions"], f["arguments"]) == (1, 1, 4)
    assert (f["tl.load"], f["tl.load.loop"], f["tl.store"], f["tl.store.loop"]) == (2, 1, 2, 1)
    assert (f["loops"], f["depth"], f["launches"], f["casts"], f["dtype.float32"]) == (1, 1, 2, 1, 1)
    assert (f["tl.mask"], f["tl.other"]) == (2, 1)
    assert (f["torch.allocate"], f["torch.pointwise"], f["torch.in_place"]) == (1, 1, 1)
    assert (f["const.warps.max"], f["const.warps.min"], f["const.stages.max"]) == (3, 3, 1)
    assert "cuda.kernels" not in f


def test_named_constants_follow_names_and_keep_the_largest() -> None:
    assert constants(TRITON) == {"ROW_BLOCK": 1024, "NUM_WARPS": 8, "BLOCK": 1024, "num_warps": 8, "num_stages": 2}


def test_a_cuda_source() -> None:
    f = source_features(CUDA)
    assert (f["cuda.kernels"], f["cuda.shared"], f["cuda.sync"], f["cuda.loop"]) == (1, 1, 1, 1)
    assert (f["cuda.vec4"], f["cuda.exp"], f["cuda.cast"], f["launches"]) == (2, 1, 1, 1)
    assert (f["options"], f["fast_math"], f["register_limit"]) == (2, 1, 64)
    assert constants(CUDA) == {"THREADS": 256, "VEC": 4, "TILE": 32}
    assert (f["const.threads.max"], f["const.vector.max"], f["const.block.max"]) == (8, 2, 5)


@pytest.mark.parametrize("code", ["def f(:", "\0", "(" * 5000, ""])
def test_odd_source_has_features_too(code: str) -> None:
    assert source_features(code)["lines"] == 1
    assert isinstance(constants(code), dict)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("LSE_WARPS", "warps"), ("num_stages", "stages"), ("BLOCK_M", "block"), ("THREADS", "threads"), ("EPS", "other")],
)
def test_roles(name: str, expected: str) -> None:
    assert role(name) == expected


def ask(anchor: str, candidate: str, anchor_time_us: float | None = 31.25) -> Query:
    # 2^26 bytes over 4.3e12 bytes per second are 15.6067 us.
    facts = {"cases": [{"bytes": 2**26, "flops": 2**27, "timing": True}, {"bytes": 1, "flops": 1, "timing": False}]}
    return Query("p-0", "pairs", "t", "", "parent", anchor, candidate, anchor_time_us, "NVIDIA H200", facts)


def test_an_edit_is_described_by_its_ratio() -> None:
    edited = TRITON.replace("NUM_WARPS = 8", "NUM_WARPS = 2").replace("4 * 256", "8 * 256")
    f = query_features(ask(TRITON, edited))
    assert f["edit.warps"] == -3.0  # NUM_WARPS from 8 to 2, and the largest num_warps from 8 to 4
    assert f["edit.block"] + f.get("edit.rows", 0.0) == 2.0
    assert (f["edit.numbers_up"], f["edit.numbers_down"]) == (1.0, -2.0)
    assert (f["edit.removed"], f["edit.added"]) == (2.0, 2.0)


def test_no_edit_is_no_change() -> None:
    f = query_features(ask(TRITON, TRITON))
    assert not [name for name in f if name.startswith("change.")]
    assert f["edit.added"] == f["edit.removed"] == f["edit.share"] == 0.0


def test_the_anchor_is_set_against_the_roofline_of_the_timing_cases() -> None:
    f = query_features(ask(TRITON, TRITON))
    assert f["task.cases"] == 1.0
    assert f["task.bytes"] == 26.0
    assert f["task.intensity"] == 1.0
    assert 2 ** f["anchor.over_floor"] == pytest.approx(31.25 / 15.6067, rel=1e-4)
    assert "anchor.over_floor" not in query_features(ask(TRITON, TRITON, None))


def test_constant_columns_are_left_out_and_absence_is_zero() -> None:
    rows = [{"a": 1.0, "b": 2.0, "c": 0.0}, {"a": 1.0}]
    assert varying_features(rows) == ("b",)
    assert matrix(rows, ("b", "a", "new")).tolist() == [[2.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    assert matrix([], ("b",)).shape == (0, 1)
