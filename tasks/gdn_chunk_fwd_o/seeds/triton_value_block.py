import torch
import triton
import triton.language as tl

SPAN = 64
BLOCK_K = 16
BLOCK_V = 32
PRECISION = "tf32x3"
NUM_WARPS = 4
NUM_STAGES = 3


@triton.jit
def value_block_output(
    q_ptr,
    k_ptr,
    v_ptr,
    h_ptr,
    g_ptr,
    o_ptr,
    heads,
    scale,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    cols = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    pair = tl.program_id(1).to(tl.int64)
    row = tl.arange(0, C)
    token = (pair // heads * C + row) * heads + pair % heads
    col_mask = (cols < V)[None, :]
    weights = tl.zeros([C, C], dtype=tl.float32)
    out = tl.zeros([C, BLOCK_V], dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        mask = (keys < K)[None, :]
        q = tl.load(q_ptr + token[:, None] * K + keys[None, :], mask=mask, other=0.0)
        k = tl.load(k_ptr + token[:, None] * K + keys[None, :], mask=mask, other=0.0)
        h_at = pair * K * V + keys[:, None] * V + cols[None, :]
        h = tl.load(h_ptr + h_at, mask=(keys < K)[:, None] & col_mask, other=0.0)
        weights += tl.dot(q, tl.trans(k), input_precision=PRECISION)
        out += tl.dot(q, h, input_precision=PRECISION)
    gain = tl.load(g_ptr + token)
    gap = gain[:, None] - gain[None, :]
    weights = tl.where(row[:, None] >= row[None, :], weights * tl.exp(tl.minimum(gap, 0.0)), 0.0)
    v_at = token[:, None] * V + cols[None, :]
    v = tl.load(v_ptr + v_at, mask=col_mask, other=0.0)
    out = out * tl.exp(gain)[:, None] + tl.dot(weights, v, input_precision=PRECISION)
    tl.store(o_ptr + v_at, out * scale, mask=col_mask)


def custom_kernel(data):
    q, k, v_new, h, g = data
    batch, length, heads, key = q.shape
    value = v_new.shape[-1]
    o = torch.empty_like(v_new)
    value_block_output[(triton.cdiv(value, BLOCK_V), batch * length // SPAN * heads)](
        q,
        k,
        v_new,
        h,
        g,
        o,
        heads,
        key**-0.5,
        K=key,
        V=value,
        BLOCK_K=BLOCK_K,
        BLOCK_V=BLOCK_V,
        C=SPAN,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return o
