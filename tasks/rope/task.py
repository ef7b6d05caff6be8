"""Rotary position embedding of queries and keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerances of q and k."""
    return Tolerance(rtol=8.5e-3, atol=1e-6), Tolerance(rtol=8.5e-3, atol=1e-6)


def case(
    batch: int, length: int, q_heads: int, k_heads: int, width: int, kind: str = "normal", cpu: bool = False
) -> Case:
    """Return the case; least traffic is each tensor once, arithmetic 3 operations per element of q and k."""
    numel = batch * length * (q_heads + k_heads) * width
    suffix = "" if kind == "normal" else f"-{kind}"
    return Case(
        case_id=f"b{batch}-s{length}-q{q_heads}-k{k_heads}-d{width}{suffix}",
        params={
            "batch": batch,
            "length": length,
            "q_heads": q_heads,
            "k_heads": k_heads,
            "width": width,
            "kind": kind,
        },
        bytes=2 * 2 * numel + 2 * 4 * length * (width // 2),
        flops=3 * numel,
        cpu=cpu,
    )


TASK = Task(
    name="rope",
    source="operator",
    family="attention",
    statement=(
        "Rotary position embedding of queries and keys, halves paired: with a = x[..., :D/2], b = x[..., D/2:], c = "
        "cos[s] and t = sin[s] of the position s along dimension 1, the result is the concatenation of a * c - b * t "
        "and b * c + a * t. data = (q [B, S, Hq, D] bfloat16, k [B, S, Hk, D] bfloat16, cos [S, D/2] float32, sin [S, "
        "D/2] float32), all contiguous; D is even and at most 256, Hq and Hk at most 128. Returns the new tensors (q, "
        "k) after rotation, bfloat16; the inputs stay unchanged. Arithmetic is in float32, rounded once. Timed are "
        "custom_kernel's device operations for (B, S, Hq, Hk, D) of (4, 4096, 32, 8, 128), (8, 2048, 16, 16, 64) and "
        "(1, 8192, 64, 8, 128), on cold caches."
    ),
    check_cases=(
        case(2, 9, 4, 2, 64, cpu=True),
        case(1, 17, 3, 1, 96, cpu=True),
        case(3, 5, 2, 2, 64, "equal", cpu=True),
        case(2, 20, 1, 1, 20, cpu=True),
        case(1, 1, 8, 8, 64, cpu=True),
        case(2, 3, 5, 1, 2, cpu=True),
        case(3, 1001, 32, 4, 128),
        case(2, 515, 12, 12, 80, "equal"),
    ),
    timing_cases=(
        case(4, 4096, 32, 8, 128),
        case(8, 2048, 16, 16, 64),
        case(1, 8192, 64, 8, 128),
    ),
    small_timing_cases=(
        case(1, 4096, 32, 8, 128),
        case(2, 2048, 16, 16, 64),
        case(1, 2048, 64, 8, 128),
    ),
    tolerances=tolerances,
    seeds={
        "train": ("torch_eager", "triton_head", "triton_flat"),
        "validation": ("torch_complex", "triton_token"),
        "test": ("torch_joined", "triton_position", "triton_persistent", "cuda_pack"),
    },
    notes=(
        "The two products are exact to 6e-8 of |x| in float32, and their sum is rounded to bfloat16 once: either "
        "neighbour is within 2^-7 = 7.8e-3 of it, so rtol 8.5e-3; where the products cancel, 1e-6 of the RMS covers "
        "the float32 error. Tables or products rounded to bfloat16 fail."
    ),
    sources=("https://arxiv.org/abs/2104.09864",),
    cpu_skip={"cuda_pack": "CUDA C++ needs NVRTC and a GPU"},
    constants={
        "triton_flat": {"BLOCK": (512, 1024, 2048, 4096)},
        "triton_persistent": {"PROGRAMS": (264, 528, 1056, 2112)},
    },
)
