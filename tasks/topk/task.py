"""The 8 largest values of each row and their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance

K = 8


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerances of values and indices: none."""
    return Tolerance(rtol=0.0, atol=0.0), Tolerance(rtol=0.0, atol=0.0)


def case(rows: int, n: int, kind: str = "mixed", cpu: bool = False) -> Case:
    """Return the case; least traffic is x, values and indices once, arithmetic one comparison per element."""
    suffix = "" if kind == "mixed" else f"-{kind}"
    return Case(
        case_id=f"{rows}x{n}{suffix}",
        params={"rows": rows, "n": n, "kind": kind},
        bytes=4 * rows * n + rows * K * (4 + 8),
        flops=rows * n,
        cpu=cpu,
    )


TASK = Task(
    name="topk",
    source="operator",
    family="reduce",
    statement=(
        "The 8 largest values of each row and their places. data = (x [R, n] float32,), contiguous, n >= 8. Returns "
        "the new tensors (values [R, 8] float32, indices [R, 8] int64), both ordered from the largest value to the "
        "eighth largest; indices count columns from 0; x stays unchanged. A row has at least 8 finite values, no "
        "finite value occurs twice in it, other entries may be -inf; no entry is NaN or +inf. The result has to be "
        "exact. Timed are custom_kernel's device operations for R x n of 65536x256, 8192x4096 and 1024x50257, on cold "
        "caches."
    ),
    check_cases=(
        case(20, 257, cpu=True),
        case(9, 8, cpu=True),
        case(12, 500, "negative", cpu=True),
        case(10, 300, "masked", cpu=True),
        case(3, 150, "rotated", cpu=True),
        case(2, 2100, cpu=True),
        case(70001, 100, "masked"),
        case(257, 32000, "rotated"),
        case(1001, 4099, "negative"),
    ),
    timing_cases=(case(65536, 256), case(8192, 4096), case(1024, 50257)),
    small_timing_cases=(case(16384, 256), case(2048, 4096), case(256, 50257)),
    tolerances=tolerances,
    seeds={
        "train": ("torch_sort", "triton_row", "triton_two_stage", "cuda_block_rounds"),
        "validation": ("torch_rounds", "triton_keys"),
        "test": ("torch_chunked", "triton_threshold", "triton_multirow", "cuda_warp_row"),
    },
    notes=(
        "Nothing is computed, so values and indices have to be equal. Ties are impossible: the values of a row are a "
        "permutation of ranks with a fractional part below 0.25, times a scale. The rotated rows rise, so that an "
        "insertion into a running list happens at every element."
    ),
    sources=("torch.topk",),
    cpu_skip={
        "cuda_block_rounds": "CUDA C++ needs NVRTC and a GPU",
        "cuda_warp_row": "CUDA C++ needs NVRTC and a GPU",
    },
)
