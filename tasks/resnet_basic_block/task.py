"""Basic residual block of ResNet at inference, with or without downsampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of the output."""
    return (Tolerance(rtol=3e-3, atol=5e-3),)


def case(n: int, c: int, h: int, w: int, k: int = 0, kind: str = "normal", cpu: bool = False) -> Case:
    """Return the case, downsampling to k channels if given; bytes are each tensor once, flops those of convolutions."""
    down = k > 0
    k = k or c
    rows, cols = ((h + 1) // 2, (w + 1) // 2) if down else (h, w)
    filters = 9 * k * c + 9 * k * k + (k * c if down else 0)
    pixels = n * rows * cols
    suffix = (f"-down{k}" if down else "") + ("" if kind == "normal" else f"-{kind}")
    return Case(
        case_id=f"{n}x{c}x{h}x{w}{suffix}",
        params={"n": n, "c": c, "k": k, "h": h, "w": w, "down": down, "kind": kind},
        bytes=2 * (n * c * h * w + pixels * k + filters) + 16 * k * (3 if down else 2),
        flops=2 * pixels * filters + 8 * pixels * k,
        cpu=cpu,
    )


TASK = Task(
    name="resnet_basic_block",
    source="network",
    family="block",
    statement=(
        "Basic block of ResNet at inference: y = relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x)), where conv1 "
        "and conv2 are 3x3 convolutions with padding 1 and no bias and bn(z) = (z - mean) / sqrt(variance + 1e-5) * "
        "gamma + beta per channel. data = (x [N, C, H, W], w1 [K, C, 3, 3], bn1 [4, K], w2 [K, K, 3, 3], bn2 [4, "
        "K]): then K = C, all strides are 1 and shortcut(x) = x. If data holds two more tensors (w_down [K, C, 1, "
        "1], bn_down [4, K]), conv1 has stride 2 and shortcut(x) = bn_down(1x1 convolution of stride 2). x and the "
        "filters are float16, the rows of a batch norm are gamma, beta, mean, variance in float32; all are "
        "contiguous. The result is a new contiguous float16 tensor [N, K, H', W'] with H' = ceil(H / stride); the "
        "inputs stay unchanged. Sums are accumulated in float32; intermediate results may be rounded to float16. Any "
        "sizes >= 1 must work. Timed are custom_kernel's device operations for x of 64x64x56x56 and 64x256x14x14 "
        "without and 64x64x56x56 to 128 channels with downsampling, on cold caches."
    ),
    check_cases=(
        case(2, 6, 7, 9, cpu=True),
        case(1, 5, 9, 7, k=11, cpu=True),
        case(1, 17, 5, 3, kind="small", cpu=True),
        case(2, 3, 8, 6, k=7, kind="small", cpu=True),
        case(3, 7, 5, 5, kind="constant", cpu=True),
        case(1, 3, 1, 1, k=5, cpu=True),
        case(3, 64, 27, 29),
        case(5, 64, 15, 17, k=128),
    ),
    timing_cases=(
        case(64, 64, 56, 56),
        case(64, 64, 56, 56, k=128),
        case(64, 256, 14, 14),
    ),
    small_timing_cases=(case(16, 64, 56, 56), case(16, 64, 56, 56, k=128)),
    tolerances=tolerances,
    seeds={
        "train": ("torch_eager", "torch_unfold", "triton_epilogue", "triton_conv_fused"),
        "validation": ("torch_folded", "triton_tap_gemm"),
        "test": ("torch_channels_last", "triton_nhwc_block", "cuda_epilogue"),
    },
    notes=(
        "All is float16 with half a unit of 2^-11 = 4.9e-4. The reference rounds the second convolution, its batch "
        "norm and the sum, with values up to four times the RMS before they cancel: at the worst element about 2e-3 "
        "of the RMS each, and the rounded first half and filters with folded batch norm add about 1e-3. rtol 3e-3 "
        "and 5e-3 of the RMS hold that; bfloat16 anywhere, or sums accumulated in float16, miss it. Fusing batch "
        "norm, ReLU and shortcut into an epilogue saves half of the traffic, folding them into the filters too."
    ),
    sources=("https://arxiv.org/abs/1512.03385", "https://github.com/ScalingIntelligence/KernelBench"),
    cpu_skip={"cuda_epilogue": "CUDA C++ needs NVRTC and a GPU"},
)
