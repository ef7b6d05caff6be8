import torch
import triton
import triton.language as tl

BLOCK_N = 64
WORDS = 8
NUM_WARPS = 4


@triton.jit
def row_product(
    x_ptr,
    packed_ptr,
    scale_ptr,
    zero_ptr,
    out_ptr,
    n,
    k,
    words_per_group,
    WORDS: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    row = tl.program_id(1)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = cols < n
    lane = tl.arange(0, WORDS)
    total = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for first in range(0, k // 8, WORDS):
        words = first + lane
        packed = tl.load(packed_ptr + words[:, None] * n + cols[None, :], mask=inside[None, :], other=0)
        at = first // words_per_group * n + cols
        scale = tl.load(scale_ptr + at, mask=inside, other=0.0).to(tl.float32)
        zero = tl.load(zero_ptr + at, mask=inside, other=0).to(tl.float32)
        part = tl.zeros((WORDS, BLOCK_N), dtype=tl.float32)
        for place in tl.static_range(8):
            x = tl.load(x_ptr + row * k + words * 8 + place).to(tl.float32)
            code = ((packed >> (4 * place)) & 15).to(tl.float32)
            part += x[:, None] * (code - zero[None, :])
        total += tl.sum(part, axis=0) * scale
    tl.store(out_ptr + row * n + cols, total.to(tl.float16), mask=inside)


def custom_kernel(data):
    x, packed, scales, zeros = data
    m, k = x.shape
    n = packed.shape[1]
    out = torch.empty((m, n), device=x.device, dtype=x.dtype)
    row_product[(triton.cdiv(n, BLOCK_N), m)](
        x,
        packed,
        scales,
        zeros,
        out,
        n,
        k,
        packed.shape[0] // scales.shape[0],
        WORDS=WORDS,
        BLOCK_N=BLOCK_N,
        num_warps=NUM_WARPS,
    )
    return out
