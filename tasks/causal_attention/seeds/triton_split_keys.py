import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64
SPLITS = 4
NUM_WARPS = 4
NUM_STAGES = 3
MERGE_WARPS = 2
DOT_TYPES = {"cuda": tl.bfloat16, "cpu": tl.float32}


@triton.jit
def attend_segment(
    q_ptr,
    k_ptr,
    v_ptr,
    part_ptr,
    lse_ptr,
    length,
    scale,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DOT: tl.constexpr,
):
    first = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1).to(tl.int64)
    split = tl.program_id(2)
    base = head * length * DIM
    rows = first + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, DIM)
    q = tl.load(q_ptr + base + rows[:, None] * DIM + dims[None, :], mask=(rows < length)[:, None], other=0.0).to(DOT)
    peak = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    out = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    end = tl.minimum(first + BLOCK_M, length)
    for start in range(split * BLOCK_N, end, tl.num_programs(2) * BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        inside = cols < length
        k = tl.load(k_ptr + base + cols[None, :] * DIM + dims[:, None], mask=inside[None, :], other=0.0)
        visible = cols[None, :] <= rows[:, None]
        scores = tl.where(visible, tl.dot(q, k.to(DOT)) * scale, -1e30)
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.where(visible, tl.exp2(scores - new_peak[:, None]), 0.0)
        shrink = tl.exp2(peak - new_peak)
        total = total * shrink + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + base + cols[:, None] * DIM + dims[None, :], mask=inside[:, None], other=0.0)
        out = tl.dot(weights.to(tl.bfloat16).to(DOT), v.to(DOT), out * shrink[:, None])
        peak = new_peak
    some = total > 0.0
    safe = tl.where(some, total, 1.0)
    row = (head * tl.num_programs(2) + split) * length + rows
    kept = rows < length
    tl.store(part_ptr + row[:, None] * DIM + dims[None, :], out / safe[:, None], mask=kept[:, None])
    tl.store(lse_ptr + row, tl.where(some, peak + tl.log2(safe), float("-inf")), mask=kept)


@triton.jit
def merge_segments(part_ptr, lse_ptr, out_ptr, length, DIM: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64)
    at = (head * SPLITS + tl.arange(0, SPLITS)) * length + row
    dims = tl.arange(0, DIM)
    lse = tl.load(lse_ptr + at)
    weight = tl.exp2(lse - tl.max(lse, axis=0))
    weight = weight / tl.sum(weight, axis=0)
    parts = tl.load(part_ptr + at[:, None] * DIM + dims[None, :])
    out = tl.sum(parts * weight[:, None], axis=0)
    tl.store(out_ptr + (head * length + row) * DIM + dims, out.to(tl.bfloat16))


def custom_kernel(data):
    q, k, v = data
    batch, heads, length, dim = q.shape
    out = torch.empty_like(q)
    part = torch.empty((batch * heads, SPLITS, length, dim), device=q.device, dtype=torch.float32)
    lse = torch.empty((batch * heads, SPLITS, length), device=q.device, dtype=torch.float32)
    attend_segment[(triton.cdiv(length, BLOCK_M), batch * heads, SPLITS)](
        q,
        k,
        v,
        part,
        lse,
        length,
        dim**-0.5 * 1.4426950408889634,
        DIM=dim,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        DOT=DOT_TYPES[q.device.type],
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    merge_segments[(length, batch * heads)](part, lse, out, length, DIM=dim, SPLITS=SPLITS, num_warps=MERGE_WARPS)
    return out
