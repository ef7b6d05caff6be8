"""Group normalisation of images, 32 groups."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from tasks.spec import Case, Task, Tolerance

SHORT = {"float32": "fp32", "bfloat16": "bf16"}
ITEMSIZE = {"float32": 4, "bfloat16": 2}


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of y for the case's dtype."""
    return {
        "float32": (Tolerance(rtol=1e-5, atol=1e-5),),
        "bfloat16": (Tolerance(rtol=8.5e-3, atol=2e-5),),
    }[params["dtype"]]


def case(shape: tuple[int, int, int, int], dtype: str, kind: str = "mixed", cpu: bool = False) -> Case:
    """Return the case; least traffic is x, weight, bias and y once, arithmetic 7 operations per element."""
    suffix = "" if kind == "mixed" else f"-{kind}"
    return Case(
        case_id=f"{'x'.join(map(str, shape))}-{SHORT[dtype]}{suffix}",
        params={"shape": shape, "dtype": dtype, "kind": kind},
        bytes=2 * (prod(shape) + shape[1]) * ITEMSIZE[dtype],
        flops=7 * prod(shape),
        cpu=cpu,
    )


TASK = Task(
    name="group_norm",
    source="operator",
    family="norm",
    statement=(
        "Group normalisation with 32 groups: the C channels of each image are divided into 32 groups of C / 32 "
        "neighbouring channels; over the C / 32 * H * W elements of a group, y = (x - mean) * rsqrt(variance + 1e-5) * "
        "weight[c] + bias[c] with the biased variance. data = (x [N, C, H, W], weight [C], bias [C]), all contiguous "
        "and of one dtype of float32 and bfloat16; C is a multiple of 32, H * W any number. The result is a new "
        "contiguous tensor with the shape and dtype of x; the inputs stay unchanged. Statistics and arithmetic are in "
        "float32, rounded once to the dtype of x; group means are within a few standard deviations. Timed are "
        "custom_kernel's device operations on x of 16x320x64x64 bfloat16, 1x128x512x512 bfloat16 and 8x512x64x64 "
        "float32, on cold caches."
    ),
    check_cases=(
        case((2, 32, 5, 7), "float32", cpu=True),
        case((1, 96, 4, 6), "float32", "tiny", cpu=True),
        case((2, 64, 1, 9), "float32", cpu=True),
        case((1, 96, 8, 8), "bfloat16", cpu=True),
        case((1, 32, 3, 11), "bfloat16", "flat", cpu=True),
        case((1, 64, 3, 70), "bfloat16", "tiny", cpu=True),
        case((1, 96, 129, 131), "float32"),
        case((2, 960, 31, 33), "bfloat16"),
        case((8, 1280, 16, 16), "bfloat16"),
    ),
    timing_cases=(
        case((16, 320, 64, 64), "bfloat16"),
        case((1, 128, 512, 512), "bfloat16"),
        case((8, 512, 64, 64), "float32"),
    ),
    small_timing_cases=(
        case((4, 320, 64, 64), "bfloat16"),
        case((1, 128, 256, 256), "bfloat16"),
        case((2, 512, 64, 64), "float32"),
    ),
    tolerances=tolerances,
    seeds={
        "train": ("torch_eager", "triton_group_loop", "triton_split"),
        "validation": ("torch_folded", "triton_merge"),
        "test": ("triton_channel", "triton_atomic", "cuda_block_group"),
    },
    notes=(
        "The mean of a group is known to about 6e-8 of its magnitude, 3 standard deviations at most, and the variance "
        "from sums of squares to about 10 times 1e-7; y can cancel against the bias. So 1e-5 relative and 1e-5 of the "
        "RMS for float32. bfloat16 is exact in float32 and y is rounded once: either neighbour is within 2^-7 = "
        "7.8e-3, so rtol 8.5e-3. PyTorch's own bfloat16 group_norm rounds mean and rstd to bfloat16 on CUDA, which is "
        "why the reference works on float32 copies. The largest case has only 32 groups: one program per group leaves "
        "most of the device idle."
    ),
    sources=("torch.nn.functional.group_norm", "https://arxiv.org/abs/1803.08494"),
    cpu_skip={"cuda_block_group": "CUDA C++ needs NVRTC and a GPU"},
    constants={"triton_split": {"CHUNK": (4096, 8192, 16384), "BLOCK": (1024, 2048, 4096)}},
)
