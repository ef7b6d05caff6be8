import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 64
NUM_WARPS = 8
NUM_STAGES = 3
DOT_TYPES = {"cuda": tl.bfloat16, "cpu": tl.float32}


@triton.jit
def flash(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    length,
    scale,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DOT: tl.constexpr,
):
    first = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1).to(tl.int64) * length * DIM
    rows = first + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, DIM)
    q = tl.load(q_ptr + base + rows[:, None] * DIM + dims[None, :], mask=(rows < length)[:, None], other=0.0).to(DOT)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    out = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in range(0, tl.minimum(first + BLOCK_M, length), BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        inside = cols < length
        k = tl.load(k_ptr + base + cols[None, :] * DIM + dims[:, None], mask=inside[None, :], other=0.0)
        scores = tl.dot(q, k.to(DOT)) * scale
        scores = tl.where(cols[None, :] <= rows[:, None], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        total = total * shrink + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + base + cols[:, None] * DIM + dims[None, :], mask=inside[:, None], other=0.0)
        out = tl.dot(weights.to(tl.bfloat16).to(DOT), v.to(DOT), out * shrink[:, None])
        peak = new_peak
    target = out_ptr + base + rows[:, None] * DIM + dims[None, :]
    tl.store(target, (out / total[:, None]).to(tl.bfloat16), mask=(rows < length)[:, None])


def custom_kernel(data):
    q, k, v = data
    batch, heads, length, dim = q.shape
    out = torch.empty_like(q)
    flash[(triton.cdiv(length, BLOCK_M), batch * heads)](
        q,
        k,
        v,
        out,
        length,
        dim**-0.5 * 1.4426950408889634,
        DIM=dim,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        DOT=DOT_TYPES[q.device.type],
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
