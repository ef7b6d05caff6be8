import torch
import triton
import triton.language as tl

SPAN = 64
BLOCK_T = 16
PRECISION = "tf32x3"
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def row_block_output(
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
    BLOCK_T: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    first = tl.program_id(0) * BLOCK_T
    head = tl.program_id(1)
    chunk = tl.program_id(2).to(tl.int64)
    keys = tl.arange(0, BLOCK_K)
    cols = tl.arange(0, BLOCK_V)
    key_mask = (keys < K)[None, :]
    col_mask = (cols < V)[None, :]
    row = first + tl.arange(0, BLOCK_T)
    token = (chunk * C + row) * heads + head
    gain = tl.load(g_ptr + token)
    q = tl.load(q_ptr + token[:, None] * K + keys[None, :], mask=key_mask, other=0.0)
    h_at = (chunk * heads + head) * K * V + keys[:, None] * V + cols[None, :]
    h = tl.load(h_ptr + h_at, mask=(keys < K)[:, None] & col_mask, other=0.0)
    out = tl.dot(q * tl.exp(gain)[:, None], h, input_precision=PRECISION)
    for start in range(0, first + BLOCK_T, BLOCK_T):
        other = start + tl.arange(0, BLOCK_T)
        source = (chunk * C + other) * heads + head
        gap = gain[:, None] - tl.load(g_ptr + source)[None, :]
        gap = tl.where(row[:, None] >= other[None, :], gap, float("-inf"))
        k = tl.load(k_ptr + source[:, None] * K + keys[None, :], mask=key_mask, other=0.0)
        weights = tl.dot(q, tl.trans(k), input_precision=PRECISION) * tl.exp(gap)
        v = tl.load(v_ptr + source[:, None] * V + cols[None, :], mask=col_mask, other=0.0)
        out += tl.dot(weights, v, input_precision=PRECISION)
    tl.store(o_ptr + token[:, None] * V + cols[None, :], out * scale, mask=col_mask)


def custom_kernel(data):
    q, k, v_new, h, g = data
    batch, length, heads, key = q.shape
    value = v_new.shape[-1]
    o = torch.empty_like(v_new)
    row_block_output[(SPAN // BLOCK_T, heads, batch * length // SPAN)](
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
        BLOCK_K=triton.next_power_of_2(key),
        BLOCK_V=triton.next_power_of_2(value),
        BLOCK_T=BLOCK_T,
        C=SPAN,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return o
