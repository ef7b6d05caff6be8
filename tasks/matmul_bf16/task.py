"""Matrix product of two bfloat16 matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of the product."""
    return (Tolerance(rtol=8e-3, atol=1.5e-2),)


def case(m: int, k: int, n: int, kind: str = "normal", cpu: bool = False) -> Case:
    """Return the case; least traffic is a, b and the product once, arithmetic 2 operations per product."""
    suffix = "" if kind == "normal" else f"-{kind}"
    return Case(
        case_id=f"{m}x{k}x{n}{suffix}",
        params={"m": m, "k": k, "n": n, "kind": kind},
        bytes=2 * (m * k + k * n + m * n),
        flops=2 * m * k * n,
        cpu=cpu,
    )


TASK = Task(
    name="matmul_bf16",
    source="operator",
    family="matmul",
    statement=(
        "Matrix product out = a @ b. data = (a [M, K], b [K, N]), both bfloat16, contiguous and row-major. Returns a "
        "new contiguous tensor [M, N] in bfloat16; the inputs stay unchanged. Products are summed in float32 and "
        "rounded to bfloat16 at the end; values may be too large for float16. Any M, K and N >= 1 must work. Timed "
        "are custom_kernel's device operations for M x K x N of 4096x4096x4096, 2048x16384x2048 and 64x8192x16384, "
        "on cold caches."
    ),
    check_cases=(
        case(33, 70, 50, cpu=True),
        case(1, 512, 129, cpu=True),
        case(70, 201, 35, "large", cpu=True),
        case(48, 96, 80, "select", cpu=True),
        case(65, 130, 1, "offset", cpu=True),
        case(30, 1201, 45, "offset", cpu=True),
        case(1000, 1000, 1000, "large"),
        case(127, 8191, 513),
        case(3008, 528, 4112, "offset"),
    ),
    timing_cases=(case(4096, 4096, 4096), case(2048, 16384, 2048), case(64, 8192, 16384)),
    small_timing_cases=(case(2048, 2048, 2048), case(512, 8192, 512), case(32, 4096, 8192)),
    tolerances=tolerances,
    seeds={
        "train": ("torch_transposed", "triton_grouped", "triton_tma_persistent", "cuda_mma"),
        "validation": ("torch_row_blocks", "triton_split_k"),
        "test": ("torch_addmm", "triton_persistent", "triton_descriptor", "cuda_simt"),
    },
    notes=(
        "The result is rounded once to bfloat16, at most 2^-8 = 3.9e-3 of its value (twice that where the rounding "
        "truncates), so rtol is 8e-3. The reference's library may add partial sums over k that it has rounded to "
        "bfloat16: emulated for eight million elements, two to eight of them added in float32 err by up to 1.46e-2 of "
        "the RMS beside rtol, none without a split. So atol is 1.5e-2. A running sum in bfloat16 or factors in 8 bits "
        "err by more. The reference is a tuned library that uses the tensor cores of an H200 fully (180 us for the "
        "first case, 760 TFLOP/s): the best seed measured so far has 0.90 of its speed. triton_tma_persistent, with "
        "128 x 256 tiles fed by the copy engine, is not measured yet; if it wins, it is on the narrow case, which the "
        "library runs at 73 us against a floor of 63 us."
    ),
    sources=("torch.matmul", "https://github.com/triton-lang/triton/tree/main/python/tutorials"),
    cpu_skip={
        "cuda_mma": "CUDA C++ needs NVRTC and a GPU",
        "cuda_simt": "CUDA C++ needs NVRTC and a GPU",
    },
)
