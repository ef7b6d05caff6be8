"""Causal depthwise convolution of width 4 with bias and SiLU, as in Mamba."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance

SHORT = {"float32": "fp32", "bfloat16": "bf16"}
ITEMSIZE = {"float32": 4, "bfloat16": 2}


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of y for the case's dtype."""
    return {
        "float32": (Tolerance(rtol=1e-5, atol=1e-5),),
        "bfloat16": (Tolerance(rtol=1.2e-2, atol=5e-3),),
    }[params["dtype"]]


def case(batch: int, channels: int, length: int, dtype: str, kind: str = "normal", cpu: bool = False) -> Case:
    """Return the case; least traffic is each tensor once, arithmetic 8 operations for the taps and 5 for SiLU."""
    numel = batch * channels * length
    suffix = "" if kind == "normal" else f"-{kind}"
    return Case(
        case_id=f"{batch}x{channels}x{length}-{SHORT[dtype]}{suffix}",
        params={"batch": batch, "channels": channels, "length": length, "dtype": dtype, "kind": kind},
        bytes=(2 * numel + 5 * channels) * ITEMSIZE[dtype],
        flops=13 * numel,
        cpu=cpu,
    )


TASK = Task(
    name="causal_conv1d",
    source="operator",
    family="conv",
    statement=(
        "Causal depthwise convolution of width 4 with bias and SiLU, as in front of Mamba's scan: z[b, d, l] = bias[d] "
        "+ sum over k = 0..3 of weight[d, k] * x[b, d, l - 3 + k], where x is zero before the start, and y = z * "
        "sigmoid(z). data = (x [B, D, L], weight [D, 4], bias [D]), contiguous and of one dtype, float32 or bfloat16. "
        "The result is a new tensor with the shape and dtype of x; the inputs stay unchanged. Arithmetic has to be as "
        "accurate as float32, rounded once or twice to the dtype of x; TF32 is too coarse for float32. Any B, D, L >= "
        "1 must work. Timed are custom_kernel's device operations on x of 4x4096x4096 bfloat16, 16x1536x2048 float32 "
        "and 8x2048x4001 bfloat16, on cold caches."
    ),
    check_cases=(
        case(2, 5, 70, "float32", cpu=True),
        case(1, 3, 131, "float32", "constant", cpu=True),
        case(3, 7, 41, "float32", "large", cpu=True),
        case(1, 1, 1, "float32", cpu=True),
        case(2, 6, 2, "float32", "late", cpu=True),
        case(2, 5, 150, "bfloat16", cpu=True),
        case(2, 3, 96, "bfloat16", "late", cpu=True),
        case(5, 9, 37, "bfloat16", "constant", cpu=True),
        case(3, 129, 2049, "float32", "late"),
        case(2, 1536, 1000, "bfloat16", "large"),
        case(70, 1024, 7, "bfloat16"),
    ),
    timing_cases=(
        case(4, 4096, 4096, "bfloat16"),
        case(16, 1536, 2048, "float32"),
        case(8, 2048, 4001, "bfloat16"),
    ),
    small_timing_cases=(
        case(2, 2048, 2048, "bfloat16"),
        case(4, 1536, 1024, "float32"),
    ),
    tolerances=tolerances,
    seeds={
        "train": ("torch_conv1d", "triton_row_block", "triton_flat", "cuda_shared_row"),
        "validation": ("torch_unfold", "triton_channel_tile"),
        "test": ("torch_shift", "triton_sweep", "triton_tap_sum", "cuda_register_window"),
    },
    notes=(
        "float32: five terms of a few units each, which may cancel, leave an absolute error of a few 1e-7 of their "
        "size; that, and a fast exponential, stay within 1e-5. TF32 or bfloat16 products are off by 3e-4 or more. "
        "bfloat16: z is rounded by half a unit, 2^-9 to 2^-8, which SiLU magnifies by at most 1.3 where |y| is not "
        "small, and y is rounded again: 1.2e-2. Where SiLU is flat or its tail is steep in relative terms (z < -1), "
        "the error of a rounded z is at most 0.11 * |z| * 2^-8, under 5e-3 of the RMS. The fused kernels read x once "
        "and write y once; the reference writes and reads z in between."
    ),
    sources=("https://github.com/Dao-AILab/causal-conv1d", "https://arxiv.org/abs/2312.00752"),
    cpu_skip={
        "cuda_shared_row": "CUDA C++ needs NVRTC and a GPU",
        "cuda_register_window": "CUDA C++ needs NVRTC and a GPU",
    },
    constants={
        "triton_flat": {"BLOCK": (256, 512, 1024, 2048)},
        "triton_row_block": {"BLOCK_L": (512, 1024, 2048, 4096)},
    },
)
