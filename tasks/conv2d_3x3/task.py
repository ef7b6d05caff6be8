"""3x3 convolution with bias over NCHW tensors, stride 1 and padding 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance

SHORT = {"float32": "fp32", "float16": "fp16"}
ITEMSIZE = {"float32": 4, "float16": 2}


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of y for the case's dtype."""
    return {
        "float32": (Tolerance(rtol=1e-5, atol=5e-5),),
        "float16": (Tolerance(rtol=1.5e-3, atol=2e-3),),
    }[params["dtype"]]


def case(n: int, c: int, k: int, h: int, w: int, dtype: str, kind: str = "normal", cpu: bool = False) -> Case:
    """Return the case; least traffic is each tensor once, arithmetic two operations for each of 9 c k terms a pixel."""
    suffix = "" if kind == "normal" else f"-{kind}"
    return Case(
        case_id=f"{n}x{c}x{h}x{w}-k{k}-{SHORT[dtype]}{suffix}",
        params={"n": n, "c": c, "k": k, "h": h, "w": w, "dtype": dtype, "kind": kind},
        bytes=(n * (c + k) * h * w + 9 * c * k + k) * ITEMSIZE[dtype],
        flops=18 * n * c * k * h * w + n * k * h * w,
        cpu=cpu,
    )


TASK = Task(
    name="conv2d_3x3",
    source="operator",
    family="conv",
    statement=(
        "3x3 convolution (cross-correlation) with bias, stride 1 and zero padding 1: y[n, k, i, j] = bias[k] + sum "
        "over c, dy, dx of weight[k, c, dy, dx] * x[n, c, i + dy - 1, j + dx - 1]. data = (x [N, C, H, W], weight "
        "[K, C, 3, 3], bias [K]), contiguous and of one dtype, float32 or float16. The result is a new contiguous "
        "tensor [N, K, H, W] of that dtype; the inputs stay unchanged. Sums are accumulated in float32 and rounded "
        "to the dtype once or twice; for float32, TF32 products are too coarse. Any sizes >= 1 must work. Timed are "
        "custom_kernel's device operations for N, C, H, W, K of 32, 64, 56, 56, 64 in float16, 32, 128, 28, 28, 256 "
        "in float16 and 16, 64, 56, 56, 64 in float32, on cold caches."
    ),
    check_cases=(
        case(2, 5, 7, 9, 11, "float32", cpu=True),
        case(1, 19, 3, 6, 5, "float32", "positive", cpu=True),
        case(1, 1, 1, 1, 1, "float32", cpu=True),
        case(1, 33, 5, 7, 9, "float16", cpu=True),
        case(2, 13, 9, 5, 7, "float16", "positive", cpu=True),
        case(3, 7, 5, 9, 3, "float16", "large", cpu=True),
        case(3, 3, 7, 13, 5, "float32", "constant", cpu=True),
        case(5, 96, 48, 33, 31, "float32"),
        case(3, 128, 64, 14, 14, "float16", "positive"),
        case(2, 512, 128, 17, 15, "float16", "large"),
    ),
    timing_cases=(
        case(32, 64, 64, 56, 56, "float16"),
        case(32, 128, 256, 28, 28, "float16"),
        case(16, 64, 64, 56, 56, "float32"),
    ),
    small_timing_cases=(
        case(16, 64, 64, 56, 56, "float16"),
        case(4, 64, 64, 56, 56, "float32"),
    ),
    tolerances=tolerances,
    seeds={
        "train": ("torch_conv2d", "torch_unfold", "triton_implicit_gemm", "triton_outer_product", "cuda_pixel_thread"),
        "validation": ("torch_channels_last", "triton_winograd"),
        "test": ("torch_shift_matmul", "triton_nhwc_gemm", "triton_split_channels", "cuda_shared_tile"),
    },
    notes=(
        "The error scales with the RMS of the output, since the terms are of both signs. float32: a sum of 9 C terms, "
        "C up to 512, is off by some 1e-6 to 1e-5 of the RMS at the worst element, Winograd's transforms included; "
        "TF32 rounds each operand by up to 2^-11, which leaves 4e-4 of the RMS on average. atol 5e-5 lies between the "
        "two: plain float32 and three TF32 products pass, one TF32 or bfloat16 product does not. float16: one rounding "
        "of half a unit is 2^-11 = 4.9e-4 and two are 9.8e-4, so rtol 1.5e-3; 2e-3 of the RMS leaves room for partial "
        "sums rounded once (split reduction of a matrix product) but not for accumulating in float16 or for bfloat16 "
        "operands. The reference switches TF32 off, which PyTorch leaves on for convolutions. cuDNN is hard to beat by "
        "implicit GEMM: on an H200 torch_conv2d, the same call, had 1.01 of the reference's speed and triton_nhwc_gemm "
        "0.97, with 1.17 on the float32 case alone; all other seeds had less, triton_winograd is not measured yet."
    ),
    sources=("torch.nn.functional.conv2d", "https://arxiv.org/abs/1410.0759"),
    cpu_skip={
        "cuda_pixel_thread": "CUDA C++ needs NVRTC and a GPU",
        "cuda_shared_tile": "CUDA C++ needs NVRTC and a GPU",
    },
)
