"""Stage of VGG: two 3x3 convolutions with ReLU and a max pooling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of the output."""
    return (Tolerance(rtol=3e-3, atol=4e-3),)


def case(n: int, c: int, h: int, w: int, k: int, kind: str = "normal", cpu: bool = False) -> Case:
    """Return the case; bytes are each tensor once, flops those of the convolutions."""
    filters = 9 * k * (c + k)
    return Case(
        case_id=f"{n}x{c}x{h}x{w}-k{k}" + ("" if kind == "normal" else f"-{kind}"),
        params={"n": n, "c": c, "k": k, "h": h, "w": w, "kind": kind},
        bytes=2 * (n * c * h * w + n * k * (h // 2) * (w // 2) + filters + 2 * k),
        flops=2 * n * h * w * filters,
        cpu=cpu,
    )


TASK = Task(
    name="vgg_stage",
    source="network",
    family="block",
    statement=(
        "Stage of VGG: y = maxpool(relu(conv2(relu(conv1(x))))), where conv1 and conv2 are 3x3 convolutions (cross-"
        "correlations) with stride 1, zero padding 1 and a bias, and maxpool takes the largest of each 2x2 window with "
        "stride 2; a last odd row or column enters the convolutions but no window. data = (x [N, C, H, W], w1 [K, C, "
        "3, 3], b1 [K], w2 [K, K, 3, 3], b2 [K]), all contiguous float16. The result is a new contiguous float16 "
        "tensor [N, K, floor(H / 2), floor(W / 2)]; the inputs stay unchanged. Sums are accumulated in float32; "
        "intermediate results may be rounded to float16. Any sizes with N, C, K >= 1 and H, W >= 2 must work. Timed "
        "are custom_kernel's device operations for x of 16x3x224x224 (K = 64), 16x64x112x112 (K = 128) and "
        "32x128x56x56 (K = 256), on cold caches."
    ),
    check_cases=(
        case(2, 3, 7, 9, 5, cpu=True),
        case(1, 7, 6, 5, 18, cpu=True),
        case(2, 4, 8, 7, 6, kind="negative", cpu=True),
        case(1, 5, 5, 6, 3, kind="large", cpu=True),
        case(3, 6, 7, 6, 4, kind="constant", cpu=True),
        case(1, 1, 2, 3, 1, cpu=True),
        case(3, 3, 61, 58, 64),
        case(2, 64, 29, 31, 128, kind="negative"),
    ),
    timing_cases=(
        case(16, 3, 224, 224, 64),
        case(16, 64, 112, 112, 128),
        case(32, 128, 56, 56, 256),
    ),
    small_timing_cases=(case(4, 3, 224, 224, 64), case(4, 64, 112, 112, 128)),
    tolerances=tolerances,
    seeds={
        "train": ("torch_unfold", "torch_channels_last", "triton_epilogue"),
        "validation": ("torch_pool_first", "triton_conv_pool"),
        "test": ("torch_winograd", "triton_patch_reuse", "cuda_pool"),
    },
    notes=(
        "All is float16 with half a unit of 2^-11 = 4.9e-4. The rounded hidden layer adds about 3e-4 of the RMS, a "
        "second convolution that is rounded before its bias two more roundings of values up to four times the RMS: "
        "together below rtol 3e-3 and 4e-3 of the RMS; bfloat16 anywhere, or sums accumulated in float16, miss it. "
        "The maximum passes errors on without growth. Pooling inside the second convolution saves writing and reading "
        "its result, four times as large as the output."
    ),
    sources=("https://arxiv.org/abs/1409.1556", "https://github.com/ScalingIntelligence/KernelBench"),
    cpu_skip={"cuda_pool": "CUDA C++ needs NVRTC and a GPU"},
)
