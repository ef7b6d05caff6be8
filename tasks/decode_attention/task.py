"""Attention of one query per head over a long key-value cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.spec import Case, Task, Tolerance


def tolerances(params: Mapping[str, Any]) -> tuple[Tolerance, ...]:
    """Return the tolerance of the attention output."""
    return (Tolerance(rtol=2e-3, atol=2e-3),)


def case(batch: int, heads: int, kv_heads: int, length: int, dim: int, kind: str = "mixed", cpu: bool = False) -> Case:
    """Return the case; least traffic is each tensor once, arithmetic 4 operations per query head, key and channel."""
    return Case(
        case_id=f"{batch}x{heads}x{kv_heads}x{length}x{dim}-{kind}",
        params={
            "batch": batch,
            "heads": heads,
            "kv_heads": kv_heads,
            "length": length,
            "dim": dim,
            "kind": kind,
        },
        bytes=2 * 2 * batch * heads * dim + 2 * 2 * batch * length * kv_heads * dim + 4 * batch,
        flops=4 * batch * heads * length * dim,
        cpu=cpu,
    )


TASK = Task(
    name="decode_attention",
    source="operator",
    family="attention",
    statement=(
        "Attention of one new token over a key-value cache, with grouped heads: query head h of sequence b attends to "
        "the first lengths[b] keys of key head h // (H / G): out[b, h] = sum over s < lengths[b] of softmax_s(q[b, h] "
        ". k[b, s, h // (H / G)] / sqrt(D)) v[b, s, h // (H / G)]. data = (q [B, H, D] float16, k [B, S, G, D] "
        "float16, v [B, S, G, D] float16, lengths [B] int32 within 1..S), all contiguous; D is 64 or 128, H / G is 1, "
        "2, 4 or 8, S up to 32768; the cache behind a length holds other finite values. Returns a new contiguous "
        "tensor [B, H, D] in float16; the inputs stay unchanged. Scores, softmax and sums are in float32. Timed are "
        "custom_kernel's device operations for B x H x G x S x D of 16x32x8x8192x128, 64x16x16x1024x64 and "
        "2x64x8x32768x128 with lengths between 15/16 S and S, on cold caches."
    ),
    check_cases=(
        case(2, 4, 2, 70, 64, cpu=True),
        case(1, 8, 1, 33, 128, cpu=True),
        case(3, 2, 2, 130, 64, "large", cpu=True),
        case(2, 8, 2, 200, 128, cpu=True),
        case(6, 4, 4, 64, 64, "short", cpu=True),
        case(2, 8, 4, 160, 64, "long", cpu=True),
        case(5, 32, 8, 3001, 128),
        case(2, 64, 8, 5000, 64, "large"),
        case(70, 16, 16, 257, 128),
    ),
    timing_cases=(
        case(16, 32, 8, 8192, 128, "long"),
        case(64, 16, 16, 1024, 64, "long"),
        case(2, 64, 8, 32768, 128, "long"),
    ),
    small_timing_cases=(
        case(4, 32, 8, 4096, 128, "long"),
        case(32, 16, 16, 512, 64, "long"),
        case(1, 64, 8, 16384, 128, "long"),
    ),
    tolerances=tolerances,
    seeds={
        "train": ("torch_grouped", "triton_one_pass", "triton_split_keys", "cuda_block_head"),
        "validation": ("torch_repeated_heads", "triton_query_head"),
        "test": ("torch_key_chunks", "triton_key_chunks", "triton_three_kernels", "cuda_lane_team"),
    },
    notes=(
        "The result and the probabilities may each be rounded once to float16, 2^-11 = 4.9e-4 of their values, and the "
        "softmax averages the latter: rtol and atol are 2e-3. bfloat16 keys or values err by ten times as much. "
        "Lengths differ a little between the timed sequences, so that the roofline floor, which counts the whole "
        "cache, is up to 6% too high. The reference treats the heads of a group as the queries of one attention, with "
        "a mask; seeds that divide the keys between blocks are expected to beat it."
    ),
    sources=(
        "torch.nn.functional.scaled_dot_product_attention",
        "https://pytorch.org/blog/flash-decoding/",
        "https://arxiv.org/abs/2305.13245",
    ),
    cpu_skip={
        "cuda_block_head": "CUDA C++ needs NVRTC and a GPU",
        "cuda_lane_team": "CUDA C++ needs NVRTC and a GPU",
    },
)
