import torch
import triton
import triton.language as tl

WORDS = 8
BLOCK_N = 256
NUM_WARPS = 8


@triton.jit
def widen_weight(
    packed_ptr, scale_ptr, zero_ptr, weight_ptr, n, words_per_group, WORDS: tl.constexpr, BLOCK: tl.constexpr
):
    first = tl.program_id(0) * WORDS
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < n
    at = first // words_per_group * n + cols
    scale = tl.load(scale_ptr + at, mask=inside, other=0.0)
    zero = tl.load(zero_ptr + at, mask=inside, other=0).to(tl.int32)
    words = first + tl.arange(0, WORDS)
    packed = tl.load(packed_ptr + words[:, None] * n + cols[None, :], mask=inside[None, :], other=0)
    for place in tl.static_range(8):
        weight = (((packed >> (4 * place)) & 15) - zero[None, :]).to(tl.float16) * scale[None, :]
        target = (words * 8 + place)[:, None] * n + cols[None, :]
        tl.store(weight_ptr + target, weight, mask=inside[None, :])


def custom_kernel(data):
    x, packed, scales, zeros = data
    words, n = packed.shape
    weight = torch.empty((x.shape[1], n), device=x.device, dtype=x.dtype)
    grid = (words // WORDS, triton.cdiv(n, BLOCK_N))
    widen_weight[grid](
        packed, scales, zeros, weight, n, words // scales.shape[0], WORDS=WORDS, BLOCK=BLOCK_N, num_warps=NUM_WARPS
    )
    return torch.matmul(x, weight)
