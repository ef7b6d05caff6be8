"""Many independent products of small float32 matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of the products."""
    return (Tolerance(rtol=1e-5, atol=2e-5),)


def case(batch: int, m: int, k: int, n: int, kind: str = "normal", cpu: bool = False) -> Case:
    """Return the case; least traffic is each tensor once, arithmetic 2 operations per product."""
    suffix = "" if kind == "normal" else f"-{kind}"
    return Case(
        case_id=f"{batch}x{m}x{k}x{n}{suffix}",
        params={"batch": batch, "m": m, "k": k, "n": n, "kind": kind},
        bytes=4 * batch * (m * k + k * n + m * n),
        flops=2 * batch * m * k * n,
        cpu=cpu,
    )


TASK = Task(
    name="batched_small_gemm",
    source="operator",
    family="matmul",
    statement=(
        "Batch of independent small matrix products: out[i] = a[i] @ b[i]. data = (a [B, M, K], b [B, K, N]), both "
        "float32, contiguous and row-major; 1 <= M, K, N <= 64 and B >= 1. Returns a new contiguous tensor [B, M, N] "
        "in float32; the inputs stay unchanged. Results must be as accurate as float32 arithmetic: factors rounded to "
        "TF32 or less do not pass. Timed are custom_kernel's device operations for B x M x K x N of 65536x16x16x16, "
        "16384x48x32x40 and 8192x64x64x64, on cold caches."
    ),
    check_cases=(
        case(5, 7, 9, 11, cpu=True),
        case(3, 16, 16, 16, cpu=True),
        case(2, 1, 61, 1, cpu=True),
        case(3, 33, 50, 64, "large", cpu=True),
        case(1, 64, 64, 64, "offset", cpu=True),
        case(6, 5, 1, 3, cpu=True),
        case(70001, 4, 8, 4),
        case(1001, 40, 33, 50, "large"),
        case(333, 64, 64, 64),
    ),
    timing_cases=(case(65536, 16, 16, 16), case(16384, 48, 32, 40), case(8192, 64, 64, 64)),
    small_timing_cases=(case(32768, 16, 16, 16), case(8192, 48, 32, 40), case(4096, 64, 64, 64)),
    tolerances=tolerances,
    seeds={
        "train": ("torch_einsum", "triton_one_matrix", "triton_batch_dot", "cuda_shared"),
        "validation": ("torch_outer_sum", "triton_outer_loop"),
        "test": ("torch_product_sum", "triton_three_terms", "triton_row_strip", "cuda_register_tile"),
    },
    notes=(
        "A float32 sum of at most 64 products errs by a few times 6e-8 of the sum of their magnitudes, which is at "
        "most 6 RMS of the result here: below 3e-6 of the RMS. Three TF32 products per float32 product, without the "
        "product of the low parts, err by up to 1e-5. So rtol is 1e-5 and atol 2e-5; one TF32 product errs by 4e-4."
    ),
    sources=("torch.bmm",),
    cpu_skip={
        "cuda_register_tile": "CUDA C++ needs NVRTC and a GPU",
        "cuda_shared": "CUDA C++ needs NVRTC and a GPU",
    },
)
