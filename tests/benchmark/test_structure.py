from __future__ import annotations

import pytest

from benchmark.code_view import code_view
from benchmark.structure import structure_hash
from tests.factory import Recipe

BASE = """import torch, triton
import triton.language as tl

@triton.jit
def k(x_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    tl.store(x_ptr + cols, tl.load(x_ptr + cols, mask=cols < n, other=0.0) * 2)

def custom_kernel(data):
    k[(4,)](data[0], 4, BLOCK=128, num_warps=4)
    return data[0]
"""
CUDA = 'S = """__global__ void k(float* x) { for (int i = 0; i < 4; ++i) x[i] = __expf(x[i]); }"""\n'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("128", "1024"),
        ("num_warps=4", "num_warps=8, num_stages=3"),
        (", num_warps=4", ""),
        ("other=0.0", "other=-1.0"),
        ("cols", "offsets"),
        ("BLOCK", "TILE"),
        ("def k(", "# note\ndef k("),
        ("triton.language as tl", "triton.language as lang"),
        ("    cols = tl", "    'doc'\n    cols  =  tl"),
    ],
)
def test_literals_launch_options_and_names_do_not_count(old: str, new: str) -> None:
    changed = BASE.replace(old, new)
    if new.endswith("lang"):
        changed = changed.replace("tl.", "lang.")
    assert changed != BASE
    assert structure_hash(changed) == structure_hash(BASE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("* 2", "+ 2"),
        ("tl.load", "tl.loads"),
        (", mask=cols < n, other=0.0", ""),
        ("mask=", "masks="),
        ("cols < n", "cols <= n"),
        ("    return data[0]\n", "    for _ in range(2):\n        pass\n    return data[0]\n"),
    ],
)
def test_operations_library_names_and_control_flow_count(old: str, new: str) -> None:
    changed = BASE.replace(old, new)
    assert changed != BASE
    assert structure_hash(changed) != structure_hash(BASE)


def test_cuda_in_strings_is_compared_by_its_tokens() -> None:
    same = CUDA.replace("4", "1024").replace("x[i]", "y[j]").replace("{ for", "{\n  // note\n  for")
    assert structure_hash(same) == structure_hash(CUDA)
    for old, new in (("__expf", "__logf"), ("++i", "i += 1"), ("<", "<="), ("float", "double")):
        assert structure_hash(CUDA.replace(old, new)) != structure_hash(CUDA)


def test_a_view_has_the_structure_of_its_source() -> None:
    assert structure_hash(code_view(BASE)) == structure_hash(BASE)
    assert structure_hash(code_view(CUDA)) == structure_hash(CUDA)


def test_invalid_python_has_a_structure_too() -> None:
    assert structure_hash("def f(:\n  x = 1  # a") == structure_hash("def g(:\n  y = 22")
    assert structure_hash("def f(:\n  x = 1") != structure_hash("def f(:\n  x = 1 + 1")


def test_synthetic_styles_differ_and_their_constants_do_not() -> None:
    styles = ("chunked", "guarded", "walking", "paired", "hoisted")
    hashes = {structure_hash(Recipe(style).source("row_total")) for style in styles}
    assert len(hashes) == len(styles)
    assert structure_hash(Recipe("paired", 64, 8).source("row_total")) in hashes
