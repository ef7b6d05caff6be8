"""Triangle multiplicative update with outgoing edges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance

HIDDEN = 128


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of the updated pairs."""
    return (Tolerance(rtol=1e-2, atol=2e-2),)


def case(n: int, batch: int, dim: int, mask: str = "open", kind: str = "normal", cpu: bool = False) -> Case:
    """Return the case; least traffic is each tensor once, arithmetic the six projections and the sums over k."""
    pairs = batch * n * n
    suffix = "".join(f"-{part}" for part in (mask, kind) if part not in ("open", "normal"))
    return Case(
        case_id=f"n{n}-b{batch}-d{dim}{suffix}",
        params={"n": n, "batch": batch, "dim": dim, "mask": mask, "kind": kind},
        bytes=4 * (pairs * (2 * dim + 1) + 6 * HIDDEN * dim + 2 * dim + 2 * HIDDEN),
        flops=2 * pairs * HIDDEN * (6 * dim + n),
        cpu=cpu,
    )


TASK = Task(
    name="trimul",
    source="gpu_mode",
    family="block",
    statement=(
        "Triangle multiplicative update with outgoing edges, forward. y = layer_norm(x, norm_w, norm_b); left = (y "
        "w_left^T) mask sigmoid(y w_left_gate^T), right likewise; s[b, i, j, c] = sum over k of left[b, i, k, c] "
        "right[b, j, k, c]; out = (layer_norm(s, out_norm_w, out_norm_b) sigmoid(y w_gate^T)) w_out^T; both layer "
        "norms are over the last dimension with eps 1e-5. data = (x [B, N, N, D], mask [B, N, N] of ones and zeros, "
        "norm_w [D], norm_b [D], w_left, w_right, w_left_gate, w_right_gate, w_gate, each [128, D], out_norm_w "
        "[128], out_norm_b [128], w_out [D, 128]), all float32 and contiguous; D is a multiple of 32. Returns a new "
        "contiguous tensor [B, N, N, D] in float32; the inputs stay unchanged. left, right and s may be rounded to "
        "bfloat16, the factors of the projections to TF32 or float16 (values are small enough); sums and layer norms "
        "are in float32. x may have heavy tails. Timed are custom_kernel's device operations for (N, B, D) of (256, 2, "
        "128), (256, 2, 384) with half of the pairs masked, (512, 1, 128) and (1024, 1, 128) with heavy tails, on cold "
        "caches."
    ),
    check_cases=(
        case(9, 2, 128, "masked", cpu=True),
        case(7, 1, 128, kind="cauchy", cpu=True),
        case(17, 1, 96, "masked", "shifted", cpu=True),
        case(12, 1, 128, kind="shifted", cpu=True),
        case(5, 2, 96, "masked", "cauchy", cpu=True),
        case(64, 2, 256),
        case(100, 1, 384, "masked"),
        case(129, 2, 128, kind="cauchy"),
    ),
    timing_cases=(
        case(256, 2, 128),
        case(256, 2, 384, "masked"),
        case(512, 1, 128),
        case(1024, 1, 128, kind="cauchy"),
    ),
    paper_timing_cases=(
        case(256, 2, 128),
        case(768, 1, 128, kind="cauchy"),
        case(256, 2, 384, "masked"),
        case(512, 1, 128),
        case(1024, 1, 128, kind="cauchy"),
        case(768, 1, 384, "masked"),
        case(1024, 1, 384),
    ),
    small_timing_cases=(
        case(256, 2, 128),
        case(256, 2, 384, "masked"),
        case(512, 1, 128),
    ),
    tolerances=tolerances,
    seeds={
        "train": ("torch_bf16_sum", "triton_project_epilogue", "cuda_epilogues"),
        "validation": ("torch_packed_half", "triton_triangle"),
        "test": ("torch_folded_norm", "triton_four_kernels", "triton_outer_norm", "cuda_triangle"),
    },
    notes=(
        "The timing set paper has the seven published shapes, the headline four of them: those of 768 x 768 pairs lie "
        "between two others, and 1024 x 1024 pairs with D = 384 are 0.9 Tflop in float32 and 3.2 GB of traffic a call. "
        "An unmasked case of the published set has 3 of 100 pairs masked here, so that no input is fixed. The bias of "
        "the first norm is 0.2 times a normal draw: at full size it gives left and right a constant part whose sum "
        "over k drowns what differs between pairs. The published check is rtol = atol = 2e-2, absolute, and its "
        "baseline takes the sums over k in bfloat16, so that bfloat16 has to pass there. Simulated against float64, "
        "the error beyond 1e-2 of the value is up to 1.3e-2 of the RMS with left, right and s in bfloat16, 3e-3 with "
        "all factors in TF32 or float16, 3e-2 with every factor in bfloat16 and above 1e-1 with left and right in "
        "float8. So rtol is 1e-2 and atol 2e-2 of the RMS, which is 0.4 to 0.9: tighter than the published check on "
        "every element. The reference computes in full float32 and moves every intermediate through memory several "
        "times, so most seeds are expected to beat it."
    ),
    sources=("https://github.com/gpu-mode/reference-kernels", "https://www.nature.com/articles/s41586-021-03819-2"),
    cpu_skip={
        "cuda_epilogues": "CUDA C++ needs NVRTC and a GPU",
        "cuda_triangle": "CUDA C++ needs NVRTC and a GPU",
    },
)
