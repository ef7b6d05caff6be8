"""Labelled rows made from one Triton kernel whose speed follows from its constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmark.query import Query
from harness.surrogates.training import Labelled

SOURCE = """
import torch
import triton
import triton.language as tl

BLOCK = {block}

@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0).to(tl.{dtype})
        tl.store(y_ptr + row * n + at, x * 2, mask=at < n)

def custom_kernel(data):
    x = data[0]
    y = torch.empty_like(x)
    scale[(x.shape[0],)](x, y, x.shape[1], BLOCK=BLOCK, num_warps={warps})
    return y
"""
DTYPES = ("float32", "float64")
FACTS = {"cases": [{"case_id": "a", "bytes": 2**26, "flops": 2**25, "timing": True, "params": {"rows": 4096}}]}


def source(block: int, warps: int, dtype: str = "float32") -> str:
    return SOURCE.format(block=block, warps=warps, dtype=dtype)


def make_rows(n: int, seed: int) -> Labelled:
    """Return n rows: half against the reference, half against a parent; a block of 8192 with 1 warp fails."""
    rng = np.random.default_rng(seed)
    queries, status, log2 = [], [], []
    for i in range(n):
        (block, warps, dtype), (old_block, old_warps, old_dtype) = (
            (int(2 ** rng.integers(7, 14)), int(2 ** rng.integers(0, 4)), DTYPES[rng.integers(0, 2)]) for _ in range(2)
        )
        parent = i % 2 == 0
        speed = -abs(np.log2(block / warps) - 8) / 2 - 0.8 * (dtype == "float64")
        anchor = -abs(np.log2(old_block / old_warps) - 8) / 2 - 0.8 * (old_dtype == "float64") if parent else -1.0
        failed = block == 8192 and warps == 1
        anchor_code = source(old_block, old_warps, old_dtype) if parent else "def f(x):\n    return x * 2\n"
        queries.append(
            Query(
                f"{'p' if parent else 'q'}-{seed}-{i:05d}",
                "pairs" if parent else "pool",
                "scale",
                "Double a matrix.",
                "parent" if parent else "reference",
                anchor_code,
                source(block, warps, dtype),
                float(40 * 2**-anchor),
                "NVIDIA H200",
                FACTS,
            )
        )
        status.append("compile" if failed else "ok")
        log2.append(np.nan if failed else speed - anchor + rng.normal(0, 0.05))
    values = np.array(log2)
    return Labelled(queries, status, values, np.where(np.isnan(values), np.nan, 0.05))


@pytest.fixture(scope="session")
def rows() -> Callable[[int, int], Labelled]:
    """Give `make_rows(n, seed)`."""
    return make_rows


@pytest.fixture(scope="session")
def train() -> Labelled:
    return make_rows(600, 1)


@pytest.fixture(scope="session")
def validation() -> Labelled:
    return make_rows(150, 2)


@pytest.fixture(scope="session")
def unseen() -> Labelled:
    return make_rows(200, 3)
