import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 128
PROGRAMS = 132
NUM_WARPS = 8
NUM_STAGES = 2
DOT_TYPES = {"cuda": tl.bfloat16, "cpu": tl.float32}


@triton.jit
def absorb(
    q,
    k_ptr,
    v_ptr,
    rows,
    cols,
    dims,
    length,
    scale,
    peak,
    total,
    out,
    DIM: tl.constexpr,
    DIAGONAL: tl.constexpr,
    DOT: tl.constexpr,
):
    if DIAGONAL:
        inside = (cols < length)[:, None]
        k = tl.load(k_ptr + cols[:, None] * DIM + dims[None, :], mask=inside, other=0.0)
        v = tl.load(v_ptr + cols[:, None] * DIM + dims[None, :], mask=inside, other=0.0)
    else:
        k = tl.load(k_ptr + cols[:, None] * DIM + dims[None, :])
        v = tl.load(v_ptr + cols[:, None] * DIM + dims[None, :])
    scores = tl.dot(q, tl.trans(k.to(DOT)))
    if DIAGONAL:
        scores = tl.where(cols[None, :] <= rows[:, None], scores, float("-inf"))
    new_peak = tl.maximum(peak, tl.max(scores, axis=1) * scale)
    weights = tl.exp2(scores * scale - new_peak[:, None])
    shrink = tl.exp2(peak - new_peak)
    total = total * shrink + tl.sum(weights, axis=1)
    out = tl.dot(weights.to(tl.bfloat16).to(DOT), v.to(DOT), out * shrink[:, None])
    return new_peak, total, out


@triton.jit
def flash_persistent(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    heads,
    length,
    scale,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DOT: tl.constexpr,
):
    strips = tl.cdiv(length, BLOCK_M)
    dims = tl.arange(0, DIM)
    for tile in range(tl.program_id(0), strips * heads, tl.num_programs(0)):
        first = (strips - 1 - tile // heads) * BLOCK_M
        base = tl.cast(tile % heads, tl.int64) * length * DIM
        rows = first + tl.arange(0, BLOCK_M)
        at = base + rows[:, None] * DIM + dims[None, :]
        inside = (rows < length)[:, None]
        q = tl.load(q_ptr + at, mask=inside, other=0.0).to(DOT)
        peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
        total = tl.zeros((BLOCK_M,), dtype=tl.float32)
        out = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
        for start in range(0, first, BLOCK_N):
            cols = start + tl.arange(0, BLOCK_N)
            peak, total, out = absorb(
                q, k_ptr + base, v_ptr + base, rows, cols, dims, length, scale, peak, total, out, DIM, False, DOT
            )
        for start in range(first, tl.minimum(first + BLOCK_M, length), BLOCK_N):
            cols = start + tl.arange(0, BLOCK_N)
            peak, total, out = absorb(
                q, k_ptr + base, v_ptr + base, rows, cols, dims, length, scale, peak, total, out, DIM, True, DOT
            )
        tl.store(out_ptr + at, (out / total[:, None]).to(tl.bfloat16), mask=inside)


def custom_kernel(data):
    q, k, v = data
    batch, heads, length, dim = q.shape
    out = torch.empty_like(q)
    tiles = batch * heads * triton.cdiv(length, BLOCK_M)
    flash_persistent[(min(PROGRAMS, tiles),)](
        q,
        k,
        v,
        out,
        batch * heads,
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
