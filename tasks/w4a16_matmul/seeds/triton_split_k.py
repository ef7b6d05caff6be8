import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64
BLOCK_K = 64
SPLITS = 8
NUM_WARPS = 4
NUM_STAGES = 3
SUM_BLOCK = 512


@triton.jit
def group_partials(
    x_ptr,
    packed_ptr,
    scale_ptr,
    zero_ptr,
    partial_ptr,
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
    split = tl.program_id(2)
    inside = cols < n
    lane = tl.arange(0, BLOCK_K)
    shift = (lane % 8) * 4
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(split * BLOCK_K, k, tl.num_programs(2) * BLOCK_K):
        inner = start + lane
        x = tl.load(x_ptr + rows[:, None] * k + inner[None, :], mask=(rows < m)[:, None], other=0.0)
        words = tl.load(packed_ptr + (inner // 8)[:, None] * n + cols[None, :], mask=inside[None, :], other=0)
        at = start // group * n + cols
        zero = tl.load(zero_ptr + at, mask=inside, other=0).to(tl.int32)
        scale = tl.load(scale_ptr + at, mask=inside, other=0.0).to(tl.float32)
        centred = (((words >> shift[:, None]) & 15) - zero[None, :]).to(tl.float16)
        total += tl.dot(x, centred) * scale[None, :]
    base = partial_ptr + split.to(tl.int64) * m * n
    mask = (rows < m)[:, None] & inside[None, :]
    tl.store(base + rows[:, None] * n + cols[None, :], total, mask=mask)


@triton.jit
def sum_partials(partial_ptr, out_ptr, numel, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    split = tl.arange(0, SPLITS).to(tl.int64)
    inside = offsets < numel
    parts = tl.load(partial_ptr + split[:, None] * numel + offsets[None, :], mask=inside[None, :], other=0.0)
    tl.store(out_ptr + offsets, tl.sum(parts, axis=0).to(tl.float16), mask=inside)


def custom_kernel(data):
    x, packed, scales, zeros = data
    m, k = x.shape
    groups, n = scales.shape
    partial = torch.empty((SPLITS, m, n), device=x.device, dtype=torch.float32)
    out = torch.empty((m, n), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(n, BLOCK_N), triton.cdiv(m, BLOCK_M), SPLITS)
    group_partials[grid](
        x,
        packed,
        scales,
        zeros,
        partial,
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
    sum_partials[(triton.cdiv(m * n, SUM_BLOCK),)](partial, out, m * n, SPLITS=SPLITS, BLOCK=SUM_BLOCK)
    return out
