"""Softmax over the last dimension."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import EVERY_SEED, Case, Task, Tolerance

SHORT = {"float32": "fp32", "bfloat16": "bf16"}
ITEMSIZE = {"float32": 4, "bfloat16": 2}


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of y for the case's dtype."""
    return {
        "float32": (Tolerance(rtol=1e-5, atol=1e-6),),
        "bfloat16": (Tolerance(rtol=8.5e-3, atol=1e-6),),
    }[params["dtype"]]


def case(rows: int, n: int, dtype: str, kind: str = "normal", cpu: bool = False) -> Case:
    """Return the case; least traffic is x and y once, arithmetic 5 operations per element."""
    suffix = "" if kind == "normal" else f"-{kind}"
    return Case(
        case_id=f"{rows}x{n}-{SHORT[dtype]}{suffix}",
        params={"rows": rows, "n": n, "dtype": dtype, "kind": kind},
        bytes=2 * rows * n * ITEMSIZE[dtype],
        flops=5 * rows * n,
        cpu=cpu,
    )


TASK = Task(
    name="softmax",
    source="operator",
    family="reduce",
    statement=(
        "Softmax over the last dimension: y = exp(x - max(x)) / sum(exp(x - max(x))) per row. data = (x [R, n],), "
        "contiguous, float32 or bfloat16. The result is a new tensor with the shape and dtype of x; x stays unchanged. "
        "Arithmetic has to be as accurate as float32, rounded once to the dtype of x. Rows of any magnitude below 1e30 "
        "must work, entries may be -inf as long as a row has a finite one, and n need not be a multiple of anything. "
        "Timed are custom_kernel's device operations on x of 32768x1024 float32, 8192x8192 bfloat16 and 2048x50257 "
        "bfloat16, on cold caches."
    ),
    check_cases=(
        case(33, 257, "float32", cpu=True),
        case(12, 500, "float32", "large", cpu=True),
        case(64, 2, "float32", cpu=True),
        case(9, 300, "float32", "masked", cpu=True),
        case(16, 500, "bfloat16", cpu=True),
        case(8, 400, "bfloat16", "ties", cpu=True),
        case(2, 9001, "bfloat16", "masked", cpu=True),
        case(70001, 300, "float32", "masked"),
        case(129, 16001, "bfloat16", "large"),
        case(1025, 8192, "bfloat16"),
    ),
    timing_cases=(
        case(32768, 1024, "float32"),
        case(8192, 8192, "bfloat16"),
        case(2048, 50257, "bfloat16"),
    ),
    small_timing_cases=(
        case(8192, 1024, "float32"),
        case(2048, 8192, "bfloat16"),
        case(512, 50257, "bfloat16"),
    ),
    tolerances=tolerances,
    seeds={
        "train": ("torch_eager", "triton_row", "triton_three_pass", "cuda_block_row"),
        "validation": ("torch_log_softmax", "triton_multirow"),
        "test": ("triton_online", "triton_split", "cuda_warp_row"),
    },
    notes=(
        "float32: the difference x - max is rounded once and its exponential has a relative error of |x - max| * "
        "1.2e-7 plus a few units of 6e-8, the sum of n positive terms a few more; terms with |x - max| > 40 are below "
        "1e-17 of the largest one and covered by atol, 1e-6 of the RMS. So rtol is 1e-5. bfloat16: one rounding, "
        "either neighbour in bfloat16 is within 2^-7 = 7.8e-3, and 8.5e-3 leaves room for the float32 error."
    ),
    sources=("torch.nn.functional.softmax", "https://arxiv.org/abs/1805.02867"),
    cpu_skip={
        "cuda_block_row": "CUDA C++ needs NVRTC and a GPU",
        "cuda_warp_row": "CUDA C++ needs NVRTC and a GPU",
    },
    constants={
        EVERY_SEED: {"NUM_WARPS": (4, 8, 16)},
        "triton_online": {"BLOCK": (1024, 2048, 4096, 8192)},
        "triton_split": {"CHUNK": (2048, 4096, 8192)},
        "triton_three_pass": {"BLOCK": (512, 1024, 2048, 4096)},
    },
)
