"""Backward pass of layer normalisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance

SHORT = {"float32": "fp32", "bfloat16": "bf16"}
ITEMSIZE = {"float32": 4, "bfloat16": 2}


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerances of dx, dweight and dbias for the case's dtype."""
    rtol = {"float32": 1e-5, "bfloat16": 8.5e-3}[params["dtype"]]
    return Tolerance(rtol, atol=1e-5), Tolerance(rtol, atol=1e-4), Tolerance(rtol, atol=1e-4)


def case(rows: int, n: int, dtype: str, kind: str = "normal", cpu: bool = False) -> Case:
    """Return the case; least traffic is each tensor once, arithmetic 14 operations per element."""
    suffix = "" if kind == "normal" else f"-{kind}"
    return Case(
        case_id=f"{rows}x{n}-{SHORT[dtype]}{suffix}",
        params={"rows": rows, "n": n, "dtype": dtype, "kind": kind},
        bytes=3 * (rows * n + n) * ITEMSIZE[dtype] + 2 * 4 * rows,
        flops=14 * rows * n,
        cpu=cpu,
    )


TASK = Task(
    name="layer_norm_backward",
    source="operator",
    family="norm",
    statement=(
        "Backward pass of layer normalisation over the last dimension, with weight and bias. With h = (x - mean) * "
        "rstd and g = dy * weight: dx = rstd * (g - mean(g, -1) - h * mean(g * h, -1)), dweight = sum over rows of dy "
        "* h, dbias = sum over rows of dy. data = (dy [R, n], x [R, n], weight [n], mean [R], rstd [R]), contiguous; "
        "mean and rstd are float32, dy, x and weight share one dtype of float32 and bfloat16. Returns the new tensors "
        "(dx [R, n], dweight [n], dbias [n]) in that dtype; the inputs stay unchanged. Arithmetic and sums are in "
        "float32, rounded once at the end; n and R need not be multiples of anything. Timed are custom_kernel's device "
        "operations for R x n of 8192x4096 bfloat16, 32768x768 bfloat16 and 8192x2048 float32, on cold caches."
    ),
    check_cases=(
        case(33, 257, "float32", cpu=True),
        case(12, 500, "float32", "offset", cpu=True),
        case(7, 3, "float32", cpu=True),
        case(70, 400, "bfloat16", cpu=True),
        case(1, 500, "bfloat16", cpu=True),
        case(20, 300, "bfloat16", "offset", cpu=True),
        case(2049, 5003, "float32"),
        case(70001, 400, "bfloat16"),
        case(129, 8192, "bfloat16", "offset"),
    ),
    timing_cases=(
        case(8192, 4096, "bfloat16"),
        case(32768, 768, "bfloat16"),
        case(8192, 2048, "float32"),
    ),
    small_timing_cases=(
        case(2048, 4096, "bfloat16"),
        case(8192, 768, "bfloat16"),
        case(2048, 2048, "float32"),
    ),
    tolerances=tolerances,
    seeds={
        "train": ("torch_eager", "triton_row_atomic", "triton_strip"),
        "validation": ("torch_products", "triton_two_kernels"),
        "test": ("triton_tile", "triton_column_split"),
    },
    notes=(
        "float32: products and row means have a relative error of a few 6e-8, but dx is a difference that may cancel, "
        "so rtol 1e-5 and 1e-5 of the RMS. dweight and dbias are sums over R terms of either sign; added in order, the "
        "error is about 6e-8 * sqrt(R) of the RMS, three times that in the worst of the columns: 3e-5 for R = 32768, "
        "so 1e-4 of the RMS. bfloat16 inputs are exact in float32 and each output is rounded once; either neighbour in "
        "bfloat16 is within 2^-7 = 7.8e-3, so rtol 8.5e-3 and the same atol."
    ),
    sources=("torch.nn.functional.layer_norm", "https://arxiv.org/abs/1607.06450"),
    constants={
        "triton_column_split": {"LOOP_BLOCK": (512, 1024, 2048, 4096)},
        "triton_strip": {"PROGRAMS": (132, 264, 528)},
    },
)
