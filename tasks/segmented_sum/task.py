"""Sums of the rows of sorted segments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of the sums."""
    return (Tolerance(rtol=3e-5, atol=3e-6),)


def case(rows: int, width: int, segments: int, kind: str = "uneven", cpu: bool = False) -> Case:
    """Return the case; least traffic is each tensor once, arithmetic one addition per element of x."""
    suffix = "" if kind == "uneven" else f"-{kind}"
    return Case(
        case_id=f"{rows}x{width}-s{segments}{suffix}",
        params={"rows": rows, "width": width, "segments": segments, "kind": kind},
        bytes=4 * (rows * width + segments * width) + 8 * (rows + segments + 1),
        flops=rows * width,
        cpu=cpu,
    )


TASK = Task(
    name="segmented_sum",
    source="operator",
    family="reduce",
    statement=(
        "Sums of the rows of sorted segments: out[s] is the sum of the rows offsets[s] to offsets[s + 1] - 1 of x, "
        "zero if there is none. data = (x [T, D] float32, ids [T] int64, offsets [S + 1] int64), all contiguous; "
        "ids[t] is the segment of row t, ascending, offsets[0] = 0 and offsets[S] = T, so that either of the two "
        "suffices. Returns a new tensor [S, D] float32; the inputs stay unchanged. Sums are in float32 in any order. "
        "Lengths are very uneven and many segments are empty; no size need be a multiple of anything. Timed are "
        "custom_kernel's device operations for T x D with S segments of 262144x128 with 8192, 65536x512 with 2048 "
        "(skewed: a quarter of the rows in 8 segments) and 1048576x32 with 131072, on cold caches."
    ),
    check_cases=(
        case(60, 33, 9, cpu=True),
        case(150, 20, 40, "skewed", cpu=True),
        case(11, 130, 5, cpu=True),
        case(8, 16, 60, cpu=True),
        case(1000, 2, 420, cpu=True),
        case(97, 1, 7, cpu=True),
        case(300, 7, 3, "skewed", cpu=True),
        case(100003, 33, 1999, "skewed"),
        case(5000, 515, 6001),
        case(30011, 130, 17),
    ),
    timing_cases=(
        case(262144, 128, 8192),
        case(65536, 512, 2048, "skewed"),
        case(1048576, 32, 131072),
    ),
    small_timing_cases=(
        case(65536, 128, 2048),
        case(16384, 512, 512, "skewed"),
        case(262144, 32, 32768),
    ),
    tolerances=tolerances,
    seeds={
        "train": ("torch_scatter", "triton_segment", "triton_split_segment", "cuda_warp_segment"),
        "validation": ("torch_prefix", "triton_run_flush"),
        "test": ("torch_segment_reduce", "triton_row_atomic", "triton_run_product", "cuda_row_runs"),
    },
    notes=(
        "Added one by one, L terms have an error of about sqrt(L) * 6e-8 of the sum, since the columns have means of "
        "at least half a standard deviation: 5e-6 for the longest segments of about 5000 rows; six times that is rtol "
        "3e-5. Sums of few terms may cancel: atol 3e-6 of the RMS, which the long segments dominate. A difference of "
        "float32 prefix sums fails, one of float64 prefix sums passes."
    ),
    sources=("torch.segment_reduce", "torch.Tensor.index_add_"),
    cpu_skip={
        "cuda_warp_segment": "CUDA C++ needs NVRTC and a GPU",
        "cuda_row_runs": "CUDA C++ needs NVRTC and a GPU",
    },
)
