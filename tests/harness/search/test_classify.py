"""Operator classes read from the difference between two trees, on pairs written by hand."""

from __future__ import annotations

import pytest

from harness.search.mutate import operator_class

TRITON = """
import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def scale(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0).to(tl.float32)
        total += tl.sum(tl.exp(x), axis=0)
    tl.store(o_ptr + row, total)


def custom_kernel(data):
    (x,) = data
    out = torch.empty(x.shape[0], device=x.device)
    scale[(x.shape[0],)](x, out, x.shape[1], BLOCK=BLOCK, num_warps=4)
    return out
"""
CUDA = '''
import torch
SOURCE = r"""
extern "C" __global__ void __launch_bounds__(256) twice(const float* x, float* o, int n) {
  for (int i = threadIdx.x; i < n; i += 256) o[i] = 2.0f * expf(x[i]);
}
"""


def custom_kernel(data):
    (x,) = data
    out = torch.empty_like(x)
    torch.cuda._compile_kernel(SOURCE, "twice")(grid=(1, 1, 1), block=(256, 1, 1), args=[x, out, x.numel()])
    return out
'''
TORCH = """
import torch


def custom_kernel(data):
    x, w = data
    h = x.float()
    return (h * w + h.square().sum(dim=-1, keepdim=True)).to(x.dtype)
"""


@pytest.mark.parametrize(
    ("parent", "old", "new", "expected"),
    [
        (TRITON, "BLOCK = 1024", "BLOCK = 2048", "constants"),
        (TRITON, "num_warps=4", "num_warps=8, num_stages=2, maxnreg=64", "constants"),
        (TRITON, "other=0.0", "other=-1.0", "constants"),
        (TRITON, "other=0.0)", "other=0.0, eviction_policy='evict_first')", "memory"),
        (TRITON, "mask=cols < n, other=0.0", "", "memory"),
        (TRITON, "tl.program_id(0)", "tl.program_id(0).to(tl.int64)", "memory"),
        (TRITON, ".to(tl.float32)", "", "precision"),
        (TRITON, ".to(tl.float32)", ".to(tl.float16)", "precision"),
        (TRITON, "range(0, n, BLOCK)", "tl.range(0, n, BLOCK, num_stages=3)", "loop"),
        (TRITON, "tl.exp(x)", "tl.exp2(x * 1.44)", "algorithm"),
        (TRITON, "torch.empty(", "torch.zeros(", "host"),
        (TRITON, "    return out", "    return out.clone()", "host"),
        (CUDA, "2.0f", "4.0f", "constants"),
        (CUDA, "__launch_bounds__(256)", "__launch_bounds__(256, 2)", "constants"),
        (CUDA, "  for (", "#pragma unroll 4\n  for (", "loop"),
        (CUDA, "i += 256)", "i += 2 * 128)", "loop"),
        (CUDA, "expf(x[i])", "expf(__ldg(&x[i]))", "memory"),
        (CUDA, "expf(", "__expf(", "algorithm"),
        (CUDA, "const float* x", "const float* __restrict__ x", "memory"),
        (CUDA, "out = torch.empty_like(x)", "out = torch.zeros_like(x)", "host"),
        (TORCH, "x.float()", "x.double()", "precision"),
        (TORCH, ".square()", ".square_()", "memory"),
        (TORCH, "h * w + h.square()", "torch.addcmul(h.square(), h, w)", "fusion"),
        (TORCH, ".sum(dim=-1", ".mean(dim=-1", "algorithm"),
    ],
)
def test_class_of_an_edit(parent: str, old: str, new: str, expected: str) -> None:
    assert old in parent
    assert operator_class(parent, parent.replace(old, new)) == expected


def test_comments_and_names_of_variables_alone_are_no_class_of_their_own() -> None:
    child = TRITON.replace("    total = 0.0", '    """Say it is 3x faster."""\n    total = 0.0  # fast')
    assert operator_class(TRITON, child) == "constants"


def test_the_work_moved_out_of_a_loop_is_loop_structure() -> None:
    child = TRITON.replace("    total = 0.0", "    lanes = tl.zeros([BLOCK], dtype=tl.float32)")
    child = child.replace("total += tl.sum(tl.exp(x), axis=0)", "lanes += tl.exp(x)")
    child = child.replace("tl.store(o_ptr + row, total)", "tl.store(o_ptr + row, tl.sum(lanes, axis=0))")
    assert operator_class(TRITON, child) == "loop"


def test_a_second_kernel_is_fission() -> None:
    child = TRITON.replace(
        "def custom_kernel", "@triton.jit\ndef more(x_ptr):\n    tl.store(x_ptr, 1.0)\n\n\ndef custom_kernel"
    )
    assert operator_class(TRITON, child) == "fusion"


def test_a_body_from_the_second_parent_is_recombination() -> None:
    partner = TRITON.replace("tl.exp(x)", "x * x").replace("scale", "power")
    child = TRITON.replace("tl.exp(x)", "x * x")
    assert operator_class(TRITON, child, partner) == "recombination"
    assert operator_class(TRITON, child) == "algorithm"


def test_a_statement_in_another_place_is_memory_access() -> None:
    two = TRITON.replace("        total +=", "        y = tl.load(o_ptr + row)\n        total += y *")
    moved = two.replace("        y = tl.load(o_ptr + row)\n", "")
    moved = moved.replace("        cols =", "        y = tl.load(o_ptr + row)\n        cols =")
    assert operator_class(two, moved) == "memory"
