"""Inclusive prefix sums over the last dimension."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of the prefix sums."""
    return (Tolerance(rtol=1e-5, atol=1e-4),)


def case(rows: int, n: int, kind: str = "walk", cpu: bool = False) -> Case:
    """Return the case; least traffic is x and the sums once, arithmetic one addition per element."""
    suffix = "" if kind == "walk" else f"-{kind}"
    return Case(
        case_id=f"{rows}x{n}{suffix}",
        params={"rows": rows, "n": n, "kind": kind},
        bytes=2 * 4 * rows * n,
        flops=rows * n,
        cpu=cpu,
    )


TASK = Task(
    name="cumsum",
    source="operator",
    family="scan",
    statement=(
        "Inclusive prefix sums over the last dimension: y[r, j] = x[r, 0] + ... + x[r, j]. data = (x [R, n] float32,), "
        "contiguous. Returns a new tensor [R, n] float32; x stays unchanged. Sums are in float32 in any order; values "
        "may have either sign, and n need not be a multiple of anything. Timed are custom_kernel's device operations "
        "for R x n of 131072x256, 8192x4096 and 256x131072, on cold caches."
    ),
    check_cases=(
        case(33, 257, cpu=True),
        case(9, 2, cpu=True),
        case(10, 500, "drift", cpu=True),
        case(5, 300, "constant", cpu=True),
        case(2, 9001, cpu=True),
        case(12, 400, "sparse", cpu=True),
        case(70001, 100),
        case(37, 100003, "drift"),
        case(1001, 4100, "sparse"),
    ),
    timing_cases=(case(131072, 256), case(8192, 4096), case(256, 131072)),
    small_timing_cases=(case(32768, 256), case(2048, 4096), case(64, 131072)),
    tolerances=tolerances,
    seeds={
        "train": ("torch_blocked", "triton_row_loop", "triton_reduce_scan", "cuda_block_row"),
        "validation": ("torch_triangle", "triton_multirow"),
        "test": ("torch_doubling", "triton_scan_add", "triton_triangle", "cuda_warp_row"),
    },
    notes=(
        "A sum that passes through m additions is off by about sqrt(m) * 6e-8 of the running value, and by several "
        "times that at the worst of 10^7 places: 6e-5 of the RMS for m = 131072 in order, 1e-5 for blocks of 32. So "
        "1e-4 of the RMS, which grows as sqrt(n) for a walk and as n for a drift, and the tolerance with it. Inputs "
        "rounded to TF32 are off by 3e-4 of the RMS and those rounded to bfloat16 by more: both fail, so tl.dot needs "
        "input_precision='ieee'."
    ),
    sources=("torch.cumsum",),
    cpu_skip={
        "cuda_block_row": "CUDA C++ needs NVRTC and a GPU",
        "cuda_warp_row": "CUDA C++ needs NVRTC and a GPU",
    },
    constants={"triton_scan_add": {"CHUNK": (512, 1024, 2048, 4096)}},
)
