"""Block of Swin-MLP: spatial MLP over windows and channel MLP, both with layer norm and residual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of the output."""
    return (Tolerance(rtol=3e-3, atol=3e-3),)


def case(
    n: int, h: int, w: int, c: int, heads: int, window: int, m: int, kind: str = "normal", cpu: bool = False
) -> Case:
    """Return the case; bytes are each tensor once, flops those of the matrix products."""
    tokens, p = n * h * w, window * window
    weights = heads * p * p + 2 * m * c
    return Case(
        case_id=f"{n}x{h}x{w}x{c}-h{heads}-w{window}-m{m}" + ("" if kind == "normal" else f"-{kind}"),
        params={"n": n, "h": h, "w": w, "c": c, "heads": heads, "window": window, "m": m, "kind": kind},
        bytes=2 * (2 * tokens * c + weights + heads * p + m + 5 * c),
        flops=2 * tokens * c * (p + 2 * m),
        cpu=cpu,
    )


TASK = Task(
    name="swin_mlp_block",
    source="network",
    family="block",
    statement=(
        "Block of Swin-MLP without shift: u = x + mix(layernorm(x; gamma1, beta1)), result = u + w_down gelu(w_up "
        "layernorm(u; gamma2, beta2) + b_up) + b_down, with x [N, H, W, C], layernorm over C with epsilon 1e-5 and the "
        "exact GELU (erf). mix works in non-overlapping windows of side x side neighbouring tokens, with P = side^2 "
        "positions numbered row by row: the C channels are split into G heads of C / G neighbouring channels, and in "
        "head g of each window the result at position i is sum_j w_mix[g * P + i, j, 0] * y[j] + b_mix[g * P + i] (a "
        "1D convolution in G groups). data = (x, gamma1 [C], beta1 [C], w_mix [G * P, P, 1], b_mix [G * P], gamma2 "
        "[C], beta2 [C], w_up [M, C], b_up [M], w_down [C, M], b_down [C]), all contiguous float16. The result is a "
        "new contiguous float16 tensor [N, H, W, C]; the inputs stay unchanged. Norms are computed and sums "
        "accumulated in float32; intermediate results may be rounded to float16. side is at most 8 and divides H and "
        "W, G divides C; any such sizes must work. Timed are custom_kernel's device operations for side = 7, M = 4 C "
        "and x of 32x56x56x96 (G = 3), 32x28x28x192 (G = 6) and 64x14x14x384 (G = 12), on cold caches."
    ),
    check_cases=(
        case(2, 6, 3, 10, 2, 3, 23, cpu=True),
        case(1, 4, 6, 21, 3, 2, 34, kind="small", cpu=True),
        case(1, 7, 14, 12, 2, 7, 20, kind="offset", cpu=True),
        case(1, 8, 4, 9, 3, 4, 17, kind="constant", cpu=True),
        case(3, 2, 3, 5, 1, 1, 7, cpu=True),
        case(3, 28, 35, 96, 3, 7, 384),
        case(2, 16, 24, 192, 6, 8, 768, kind="offset"),
    ),
    timing_cases=(
        case(32, 56, 56, 96, 3, 7, 384),
        case(32, 28, 28, 192, 6, 7, 768),
        case(64, 14, 14, 384, 12, 7, 1536),
    ),
    small_timing_cases=(case(8, 56, 56, 96, 3, 7, 384), case(8, 28, 28, 192, 6, 7, 768)),
    tolerances=tolerances,
    seeds={
        "train": ("torch_baddbmm", "triton_norms", "triton_window_mix"),
        "validation": ("torch_broadcast", "triton_gemm_epilogue"),
        "test": ("torch_chunked", "triton_mlp_fused", "cuda_window_mix"),
    },
    notes=(
        "All is float16 with half a unit of 2^-11 = 4.9e-4. A kernel rounds the normalised tokens, the mixed values, "
        "their sum with x, the hidden layer, the MLP's result and the last sum: each at most 4.9e-4 of values up to "
        "four times the RMS, where the errors of sums average out. rtol 3e-3 and 3e-3 of the RMS hold that; bfloat16 "
        "anywhere misses it. The window partition is pure data movement, which a kernel can fold into its addresses, "
        "and a fused MLP keeps the hidden layer, four times as large as x, out of memory."
    ),
    sources=("https://arxiv.org/abs/2103.14030", "https://github.com/ScalingIntelligence/KernelBench"),
    cpu_skip={"cuda_window_mix": "CUDA C++ needs NVRTC and a GPU"},
)
