import torch
import triton
import triton.language as tl

BLOCK_M = 32
BLOCK_N = 64
WORDS = 16
NUM_WARPS = 4
NUM_STAGES = 3


@triton.jit
def matmul_planes(
    x_ptr,
    packed_ptr,
    scale_ptr,
    zero_ptr,
    out_ptr,
    m,
    n,
    k,
    words_per_group,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    WORDS: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    lane = tl.arange(0, WORDS)
    total_words = k // 8
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, total_words, WORDS):
        words = first + lane
        inside = (words < total_words)[:, None] & (cols < n)[None, :]
        packed = tl.load(packed_ptr + words[:, None] * n + cols[None, :], mask=inside, other=0)
        at = (words // words_per_group)[:, None] * n + cols[None, :]
        scale = tl.load(scale_ptr + at, mask=inside, other=0.0)
        zero = tl.load(zero_ptr + at, mask=inside, other=0).to(tl.int32)
        for place in tl.static_range(8):
            x = tl.load(
                x_ptr + rows[:, None] * k + (words * 8 + place)[None, :],
                mask=(rows < m)[:, None] & (words < total_words)[None, :],
                other=0.0,
            )
            weight = (((packed >> (4 * place)) & 15) - zero).to(tl.float16) * scale
            total = tl.dot(x, weight, total)
    mask = (rows < m)[:, None] & (cols < n)[None, :]
    tl.store(out_ptr + rows[:, None] * n + cols[None, :], total.to(tl.float16), mask=mask)


def custom_kernel(data):
    x, packed, scales, zeros = data
    m, k = x.shape
    words, n = packed.shape
    out = torch.empty((m, n), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(m, BLOCK_M), triton.cdiv(n, BLOCK_N))
    matmul_planes[grid](
        x,
        packed,
        scales,
        zeros,
        out,
        m,
        n,
        k,
        words // scales.shape[0],
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        WORDS=WORDS,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
