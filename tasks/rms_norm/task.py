"""RMS normalisation with a weight, over the last dimension."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from tasks.spec import Case, Task, Tolerance

SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
ITEMSIZE = {"float32": 4, "bfloat16": 2, "float16": 2}


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of y for the case's dtype."""
    return {
        "float32": (Tolerance(rtol=1e-5, atol=1e-6),),
        "float16": (Tolerance(rtol=1.25e-3, atol=1e-6),),
        "bfloat16": (Tolerance(rtol=1e-2, atol=1e-6),),
    }[params["dtype"]]


def case(shape: tuple[int, ...], dtype: str, kind: str = "mixed", cpu: bool = False) -> Case:
    """Return the case; least traffic is x, weight and y once, arithmetic 4 operations per element."""
    numel, n = prod(shape), shape[-1]
    suffix = "" if kind == "mixed" else f"-{kind}"
    return Case(
        case_id=f"{'x'.join(map(str, shape))}-{SHORT[dtype]}{suffix}",
        params={"shape": shape, "dtype": dtype, "kind": kind},
        bytes=(2 * numel + n) * ITEMSIZE[dtype],
        flops=4 * numel,
        cpu=cpu,
    )


TASK = Task(
    name="rms_norm",
    source="operator",
    family="norm",
    statement=(
        "RMS normalisation over the last dimension: y = x * rsqrt(mean(x^2, -1) + 1e-6) * weight. data = (x [..., "
        "n], weight [n]); x has two or three dimensions, is contiguous, and x and weight share one dtype of float32, "
        "bfloat16 and float16. The result is a new tensor with the shape and dtype of x; the inputs stay unchanged. "
        "Arithmetic has to be as accurate as float32, rounded once or twice to the dtype of x. Any n >= 1 and any "
        "number of rows must work. Timed are custom_kernel's device operations on x of 4096x8192 bfloat16, "
        "16384x2048 float16 and 4096x5120 float32, on cold caches."
    ),
    check_cases=(
        case((33, 257), "float32", cpu=True),
        case((9, 300), "float32", "tiny", cpu=True),
        case((12, 500), "float32", "huge", cpu=True),
        case((7, 1), "float32", cpu=True),
        case((16, 1000), "bfloat16", cpu=True),
        case((6, 600), "bfloat16", "constant", cpu=True),
        case((1, 8192), "bfloat16", cpu=True),
        case((2, 3, 1536), "float16", cpu=True),
        case((5, 2000), "float16", "large", cpu=True),
        case((33, 16001), "float32"),
        case((70001, 96), "float16"),
        case((3, 401, 7168), "bfloat16"),
    ),
    timing_cases=(
        case((4096, 8192), "bfloat16"),
        case((16384, 2048), "float16"),
        case((4096, 5120), "float32"),
    ),
    tolerances=tolerances,
    seeds={
        "train": ("torch_eager", "triton_row", "triton_two_kernels", "cuda_block_row"),
        "validation": ("triton_loop", "triton_multirow", "cuda_shared_row"),
        "test": ("torch_norm", "triton_persistent", "triton_split", "cuda_warp_row"),
    },
    notes=(
        "float32: a sum of n squares and a few roundings stay under 20 units of 6e-8, so rtol is 1e-5. float16 and "
        "bfloat16: two roundings (after the scale, after the weight) of half a unit in the last place each, 2 * "
        "2^-11 = 9.8e-4 and 2 * 2^-8 = 7.8e-3, and a quarter more. The operation is a product, so there is no "
        "absolute error but underflow: atol covers that of float16."
    ),
    sources=("torch.nn.functional.rms_norm", "https://arxiv.org/abs/1910.07467"),
    cpu_skip={
        "cuda_block_row": "CUDA C++ needs NVRTC and a GPU",
        "cuda_shared_row": "CUDA C++ needs NVRTC and a GPU",
        "cuda_warp_row": "CUDA C++ needs NVRTC and a GPU",
    },
    constants={
        "triton_loop": {"BLOCK": (512, 1024, 2048, 4096)},
        "triton_split": {"BLOCK": (1024, 2048, 4096, 8192)},
    },
)
