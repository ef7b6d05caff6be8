"""Unit of ShuffleNet at inference: grouped 1x1 convolutions around a channel shuffle and a depthwise convolution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of the output."""
    return (Tolerance(rtol=6e-3, atol=1.4e-2),)


def case(n: int, c: int, h: int, w: int, m: int, g: int, kind: str = "normal", cpu: bool = False) -> Case:
    """Return the case; bytes are each tensor once, flops those of the convolutions."""
    filters = 2 * m * (c // g) + 9 * m
    return Case(
        case_id=f"{n}x{c}x{h}x{w}-m{m}-g{g}" + ("" if kind == "normal" else f"-{kind}"),
        params={"n": n, "c": c, "m": m, "g": g, "h": h, "w": w, "kind": kind},
        bytes=4 * n * c * h * w + 2 * filters + 16 * (2 * m + c),
        flops=2 * n * h * w * filters,
        cpu=cpu,
    )


TASK = Task(
    name="shufflenet_unit",
    source="network",
    family="block",
    statement=(
        "Unit of ShuffleNet at inference, stride 1: y = relu(bn1(1x1 convolution of x with w1 in G groups)); z = the "
        "channels of y shuffled, channel j * G + i of z being channel i * (M / G) + j of y; u = bn2(depthwise 3x3 "
        "convolution of z with w_depth, padding 1); result = relu(bn3(1x1 convolution of u with w2 in G groups) + x). "
        "bn(v) = (v - mean) / sqrt(variance + 1e-5) * gamma + beta per channel; no convolution has a bias. data = (x "
        "[N, C, H, W], w1 [M, C / G, 1, 1], bn1 [4, M], w_depth [M, 1, 3, 3], bn2 [4, M], w2 [C, M / G, 1, 1], bn3 [4, "
        "C]), so that G = C / w1.shape[1]; x and the filters are float16, the rows of a batch norm are gamma, beta, "
        "mean, variance in float32; all are contiguous. The result is a new contiguous float16 tensor [N, C, H, W]; "
        "the inputs stay unchanged. Sums are accumulated in float32; intermediate results may be rounded to float16. "
        "Any sizes >= 1 with G dividing C and M must work. Timed are custom_kernel's device operations for x of "
        "256x240x28x28 (M = 60, G = 3), 512x480x14x14 (M = 120, G = 3) and 128x384x28x28 (M = 96, G = 8), on cold "
        "caches."
    ),
    check_cases=(
        case(2, 6, 7, 9, 15, 3, cpu=True),
        case(1, 20, 9, 5, 12, 2, cpu=True),
        case(1, 12, 5, 3, 8, 4, kind="small", cpu=True),
        case(2, 9, 6, 5, 12, 3, kind="constant", cpu=True),
        case(1, 5, 8, 4, 7, 1, cpu=True),
        case(1, 2, 1, 1, 4, 2, cpu=True),
        case(3, 240, 27, 25, 60, 3),
        case(2, 384, 14, 15, 96, 8, kind="small"),
    ),
    timing_cases=(
        case(256, 240, 28, 28, 60, 3),
        case(512, 480, 14, 14, 120, 3),
        case(128, 384, 28, 28, 96, 8),
    ),
    small_timing_cases=(case(64, 240, 28, 28, 60, 3), case(128, 480, 14, 14, 120, 3)),
    tolerances=tolerances,
    seeds={
        "train": ("torch_folded", "torch_bmm", "triton_epilogue", "cuda_sliding_rows"),
        "validation": ("torch_dense", "triton_shuffled_depthwise"),
        "test": ("torch_channels_last", "triton_three_stage", "triton_depth_project"),
    },
    notes=(
        "All is float16 with half a unit of 2^-11 = 4.9e-4. Each convolution and batch norm of the reference rounds "
        "once, and folding a batch norm rounds the filters; the last convolution, its batch norm and the sum round "
        "values up to four times the RMS before they cancel: at the worst element about 1.5e-3 of the RMS each, and "
        "more than one stage can be at its worst: on an H200 the worst of 38 million elements that cuDNN computed "
        "with folded filters was off by 1.9e-2, 1.0e-2 of the RMS. So rtol is 6e-3 and atol 1.4e-2; bfloat16 "
        "anywhere misses them. The bottleneck is a quarter of x, so that x and the result dominate the traffic: "
        "reading x twice and writing once is the floor of a kernel in stages."
    ),
    sources=("https://arxiv.org/abs/1707.01083", "https://github.com/ScalingIntelligence/KernelBench"),
    cpu_skip={"cuda_sliding_rows": "CUDA C++ needs NVRTC and a GPU"},
)
