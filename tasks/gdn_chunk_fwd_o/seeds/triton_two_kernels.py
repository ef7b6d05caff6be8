import torch
import triton
import triton.language as tl

SPAN = 64
BLOCK_V = 64
PRECISION = "ieee"
WEIGHT_WARPS = 4
VALUE_WARPS = 8


@triton.jit
def gated_weights(
    q_ptr,
    k_ptr,
    g_ptr,
    weights_ptr,
    heads,
    scale,
    K: tl.constexpr,
    BLOCK_K: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    index = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, C)
    keys = tl.arange(0, BLOCK_K)
    token = (index // heads * C + row) * heads + index % heads
    at = token[:, None] * K + keys[None, :]
    mask = (keys < K)[None, :]
    q = tl.load(q_ptr + at, mask=mask, other=0.0)
    k = tl.load(k_ptr + at, mask=mask, other=0.0)
    gain = tl.load(g_ptr + token)
    gap = tl.where(row[:, None] >= row[None, :], gain[:, None] - gain[None, :], float("-inf"))
    weights = tl.dot(q, tl.trans(k), input_precision=PRECISION) * tl.exp(gap) * scale
    tl.store(weights_ptr + index * C * C + row[:, None] * C + row[None, :], weights)


@triton.jit
def weighted_values(
    q_ptr,
    v_ptr,
    h_ptr,
    g_ptr,
    weights_ptr,
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
    index = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    col_mask = (cols < V)[None, :]
    row = tl.arange(0, C)
    keys = tl.arange(0, BLOCK_K)
    token = (index // heads * C + row) * heads + index % heads
    weights = tl.load(weights_ptr + index * C * C + row[:, None] * C + row[None, :])
    v_at = token[:, None] * V + cols[None, :]
    v = tl.load(v_ptr + v_at, mask=col_mask, other=0.0)
    out = tl.dot(weights, v, input_precision=PRECISION)
    factor = tl.exp(tl.load(g_ptr + token)) * scale
    q = tl.load(q_ptr + token[:, None] * K + keys[None, :], mask=(keys < K)[None, :], other=0.0)
    h_at = index * K * V + keys[:, None] * V + cols[None, :]
    h = tl.load(h_ptr + h_at, mask=(keys < K)[:, None] & col_mask, other=0.0)
    out = tl.dot(q * factor[:, None], h, acc=out, input_precision=PRECISION)
    tl.store(o_ptr + v_at, out, mask=col_mask)


def custom_kernel(data):
    q, k, v_new, h, g = data
    batch, length, heads, key = q.shape
    value = v_new.shape[-1]
    count = batch * length // SPAN * heads
    weights = torch.empty((count, SPAN, SPAN), device=q.device, dtype=q.dtype)
    o = torch.empty_like(v_new)
    shape = {"K": key, "BLOCK_K": triton.next_power_of_2(key), "C": SPAN, "PRECISION": PRECISION}
    scale = key**-0.5
    gated_weights[(count,)](q, k, g, weights, heads, scale, **shape, num_warps=WEIGHT_WARPS)
    weighted_values[(count, triton.cdiv(value, BLOCK_V))](
        q, v_new, h, g, weights, o, heads, scale, **shape, V=value, BLOCK_V=BLOCK_V, num_warps=VALUE_WARPS
    )
    return o
