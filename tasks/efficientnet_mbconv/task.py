"""Inverted bottleneck of EfficientNet (MBConv) at inference, without squeeze and excitation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of the output."""
    return (Tolerance(rtol=3e-3, atol=6e-3),)


def case(
    n: int, c: int, h: int, w: int, e: int, side: int, k: int = 0, kind: str = "normal", cpu: bool = False
) -> Case:
    """Return the case, strided to k channels if given; bytes are each tensor once, flops those of convolutions."""
    k = k or c
    rows, cols = (h, w) if k == c else ((h + 1) // 2, (w + 1) // 2)
    pixels = n * rows * cols
    suffix = (f"-to{k}" if k != c else "") + ("" if kind == "normal" else f"-{kind}")
    return Case(
        case_id=f"{n}x{c}x{h}x{w}-e{e}-s{side}{suffix}",
        params={"n": n, "c": c, "e": e, "k": k, "h": h, "w": w, "side": side, "kind": kind},
        bytes=2 * (n * c * h * w + pixels * k + e * (c + side * side + k)) + 16 * (2 * e + k),
        flops=2 * n * h * w * c * e + 2 * pixels * e * (side * side + k),
        cpu=cpu,
    )


TASK = Task(
    name="efficientnet_mbconv",
    source="network",
    family="block",
    statement=(
        "Inverted bottleneck of EfficientNet at inference, without squeeze and excitation: y = silu(bn1(1x1 "
        "convolution of x with w_expand)); z = silu(bn2(depthwise SxS convolution of y with w_depth, padding (S - "
        "1) / 2, stride s)); result = bn3(1x1 convolution of z with w_project), plus x if K = C. The stride s is 1 "
        "if K = C and 2 otherwise; silu(v) = v * sigmoid(v); bn(v) = (v - mean) / sqrt(variance + 1e-3) * gamma + "
        "beta per channel; no convolution has a bias. data = (x [N, C, H, W], w_expand [E, C, 1, 1], bn1 [4, E], "
        "w_depth [E, 1, S, S], bn2 [4, E], w_project [K, E, 1, 1], bn3 [4, K]); x and the filters are float16, the "
        "rows of a batch norm are gamma, beta, mean, variance in float32; all are contiguous. The result is a new "
        "contiguous float16 tensor [N, K, ceil(H / s), ceil(W / s)]; the inputs stay unchanged. Sums are "
        "accumulated in float32; intermediate results may be rounded to float16. S is 3 or 5; any other sizes >= 1 "
        "must work. Timed are custom_kernel's device operations for x of 64x24x56x56 (E = 144, S = 3), the same to "
        "K = 40 channels (S = 5), and 128x112x14x14 (E = 672, S = 5), on cold caches."
    ),
    check_cases=(
        case(2, 6, 7, 9, 13, 3, cpu=True),
        case(1, 5, 9, 6, 20, 5, k=7, cpu=True),
        case(1, 17, 5, 3, 18, 3, kind="small", cpu=True),
        case(2, 3, 8, 5, 7, 5, k=6, kind="steep", cpu=True),
        case(3, 7, 5, 6, 9, 3, kind="constant", cpu=True),
        case(1, 1, 1, 1, 3, 3, cpu=True),
        case(3, 24, 27, 29, 144, 3),
        case(2, 40, 15, 17, 240, 5, k=80),
    ),
    timing_cases=(
        case(64, 24, 56, 56, 144, 3),
        case(64, 24, 56, 56, 144, 5, k=40),
        case(128, 112, 14, 14, 672, 5),
    ),
    small_timing_cases=(case(16, 24, 56, 56, 144, 3), case(16, 24, 56, 56, 144, 5, k=40)),
    tolerances=tolerances,
    seeds={
        "train": ("torch_folded", "torch_channels_last", "triton_depthwise", "cuda_depthwise"),
        "validation": ("torch_shifted_sums", "triton_epilogue"),
        "test": ("torch_chunked", "triton_three_stage", "triton_depth_project"),
    },
    notes=(
        "All is float16 with half a unit of 2^-11 = 4.9e-4. The expanded tensor is rounded after each convolution, "
        "batch norm and SiLU: about 6e-4 of the RMS on it, less after the sums over taps and channels; the projection, "
        "its batch norm and the sum add three roundings of values up to four times the RMS, and folding a batch norm "
        "rounds the filters. rtol 3e-3 and 6e-3 of the RMS hold that; bfloat16 anywhere misses it. The expanded tensor "
        "is six times as large as x, so that fewer passes over it decide."
    ),
    sources=("https://arxiv.org/abs/1905.11946", "https://github.com/ScalingIntelligence/KernelBench"),
    cpu_skip={"cuda_depthwise": "CUDA C++ needs NVRTC and a GPU"},
)
