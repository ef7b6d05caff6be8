import torch
import triton
import triton.language as tl

BLOCK_M = 16
BLOCK_N = 128
BLOCK_K = 64
NUM_WARPS = 4
NUM_STAGES = 4


@triton.jit
def matmul_w4(
    x_ptr,
    packed_ptr,
    scale_ptr,
    zero_ptr,
    out_ptr,
    m,
    n,
    k,
    group,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    shift = (inner % 8) * 4
    inside = cols < n
    x_ptrs = x_ptr + rows[:, None] * k + inner[None, :]
    packed_ptrs = packed_ptr + (inner // 8)[:, None] * n + cols[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        x = tl.load(x_ptrs, mask=(rows < m)[:, None], other=0.0)
        words = tl.load(packed_ptrs, mask=inside[None, :], other=0)
        at = start // group * n + cols
        scale = tl.load(scale_ptr + at, mask=inside, other=0.0)
        zero = tl.load(zero_ptr + at, mask=inside, other=0).to(tl.int32)
        codes = (words >> shift[:, None]) & 15
        weight = (codes - zero[None, :]).to(tl.float16) * scale[None, :]
        total = tl.dot(x, weight, total)
        x_ptrs += BLOCK_K
        packed_ptrs += BLOCK_K // 8 * n
    mask = (rows < m)[:, None] & inside[None, :]
    tl.store(out_ptr + rows[:, None] * n + cols[None, :], total.to(tl.float16), mask=mask)


def custom_kernel(data):
    x, packed, scales, zeros = data
    m, k = x.shape
    groups, n = scales.shape
    out = torch.empty((m, n), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(n, BLOCK_N), triton.cdiv(m, BLOCK_M))
    matmul_w4[grid](
        x,
        packed,
        scales,
        zeros,
        out,
        m,
        n,
        k,
        k // groups,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
