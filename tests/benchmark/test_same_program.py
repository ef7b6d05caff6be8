from __future__ import annotations

import pytest

from benchmark.same_program import same_program
from tests.factory import Recipe

CODE = Recipe("chunked").source("row_total")
CUDA = """
import torch
SOURCE = "__global__ void f(float *x) { x[0] = 1.0f; }"
def custom_kernel(data):
    return 1
"""


def test_device_code_counts_by_its_hash_and_host_code_by_its_tree() -> None:
    reworded = CODE.replace("acc += tl.load", "acc = acc + tl.load") + "# the same binary\n"
    assert same_program((CODE, "c0"), (reworded, "c0"))
    assert not same_program((CODE, "c0"), (reworded, "c1"))
    assert not same_program((CODE, "c0"), (CODE.replace("num_warps=4", "num_warps=8"), "c0"))
    assert same_program((CUDA, "c0"), (CUDA.replace("x[0] = 1.0f", "*x = 1.0f"), "c0"))
    assert not same_program((CUDA, "c0"), (CUDA.replace("return 1", "return 2"), "c0"))


@pytest.mark.parametrize(("change", "same"), [(("# x", "# y"), True), (("+ 1", "+ 2"), False)])
def test_without_compiled_code_the_views_decide(change: tuple[str, str], same: bool) -> None:
    code = "def custom_kernel(data):\n    return data[0] + 1  # x\n"
    assert same_program((code, None), (code.replace(*change), None)) is same
    assert not same_program((code, None), (code, "c0"))
