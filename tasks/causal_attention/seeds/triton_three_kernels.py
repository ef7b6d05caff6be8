import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 128
PRODUCT_WARPS = 8
PRODUCT_STAGES = 3
ROW_BLOCK = 2048
ROW_WARPS = 4
DEPTH = 64
DOT_TYPES = {"cuda": tl.bfloat16, "cpu": tl.float32}


@triton.jit
def masked_scores(
    q_ptr,
    k_ptr,
    score_ptr,
    length,
    scale,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DOT: tl.constexpr,
):
    first_row = tl.program_id(1) * BLOCK_M
    first_col = tl.program_id(0) * BLOCK_N
    if first_col >= first_row + BLOCK_M:
        return
    head = tl.program_id(2).to(tl.int64)
    rows = first_row + tl.arange(0, BLOCK_M)
    cols = first_col + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, DIM)
    base = head * length * DIM
    q = tl.load(q_ptr + base + rows[:, None] * DIM + dims[None, :], mask=(rows < length)[:, None], other=0.0)
    k = tl.load(k_ptr + base + cols[None, :] * DIM + dims[:, None], mask=(cols < length)[None, :], other=0.0)
    scores = tl.dot(q.to(DOT), k.to(DOT)) * scale
    scores = tl.where(cols[None, :] <= rows[:, None], scores, float("-inf"))
    at = (head * length + rows)[:, None] * length + cols[None, :]
    tl.store(score_ptr + at, scores, mask=(rows < length)[:, None] & (cols < length)[None, :])


@triton.jit
def softmax_rows(score_ptr, weight_ptr, length, BLOCK_M: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    base = (tl.program_id(1).to(tl.int64) * length + row) * length
    end = tl.minimum((row // BLOCK_M + 1) * BLOCK_M, length)
    peak = float("-inf")
    total = 0.0
    for start in range(0, row + 1, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        scores = tl.load(score_ptr + base + cols, mask=cols <= row, other=float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=0))
        total = total * tl.exp(peak - new_peak) + tl.sum(tl.exp(scores - new_peak), axis=0)
        peak = new_peak
    for start in range(0, end, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        scores = tl.load(score_ptr + base + cols, mask=cols <= row, other=float("-inf"))
        tl.store(weight_ptr + base + cols, (tl.exp(scores - peak) / total).to(tl.bfloat16), mask=cols < end)


@triton.jit
def weighted_values(
    weight_ptr,
    v_ptr,
    out_ptr,
    length,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    DEPTH: tl.constexpr,
    DOT: tl.constexpr,
):
    first = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1).to(tl.int64)
    rows = first + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, DIM)
    end = tl.minimum(first + BLOCK_M, length)
    out = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, end, DEPTH):
        cols = start + tl.arange(0, DEPTH)
        inside = cols < end
        weight = tl.load(
            weight_ptr + (head * length + rows)[:, None] * length + cols[None, :],
            mask=(rows < length)[:, None] & inside[None, :],
            other=0.0,
        )
        v = tl.load(v_ptr + (head * length + cols)[:, None] * DIM + dims[None, :], mask=inside[:, None], other=0.0)
        out = tl.dot(weight.to(DOT), v.to(DOT), out)
    target = out_ptr + (head * length + rows)[:, None] * DIM + dims[None, :]
    tl.store(target, out.to(tl.bfloat16), mask=(rows < length)[:, None])


def custom_kernel(data):
    q, k, v = data
    batch, heads, length, dim = q.shape
    dot = DOT_TYPES[q.device.type]
    every = batch * heads
    scores = torch.empty((every, length, length), device=q.device, dtype=torch.float32)
    weights = torch.empty((every, length, length), device=q.device, dtype=q.dtype)
    out = torch.empty_like(q)
    strips = triton.cdiv(length, BLOCK_M)
    masked_scores[(triton.cdiv(length, BLOCK_N), strips, every)](
        q,
        k,
        scores,
        length,
        dim**-0.5,
        DIM=dim,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        DOT=dot,
        num_warps=PRODUCT_WARPS,
        num_stages=PRODUCT_STAGES,
    )
    softmax_rows[(length, every)](scores, weights, length, BLOCK_M=BLOCK_M, BLOCK=ROW_BLOCK, num_warps=ROW_WARPS)
    weighted_values[(strips, every)](
        weights,
        v,
        out,
        length,
        DIM=dim,
        BLOCK_M=BLOCK_M,
        DEPTH=DEPTH,
        DOT=dot,
        num_warps=PRODUCT_WARPS,
        num_stages=PRODUCT_STAGES,
    )
    return out
