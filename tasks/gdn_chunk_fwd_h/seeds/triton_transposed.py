import torch
import triton
import triton.language as tl

SPAN = 64
BLOCK_V = 32
PRECISION = "tf32x3"
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def transposed_states(
    k_ptr,
    w_ptr,
    u_ptr,
    g_ptr,
    h_ptr,
    v_ptr,
    length,
    heads,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    cols = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    col_mask = cols < V
    pair = tl.program_id(1)
    batch = (pair // heads).to(tl.int64)
    head = pair % heads
    row = tl.arange(0, C)
    keys = tl.arange(0, BLOCK_K)
    key_mask = keys < K
    chunks = length // C
    k_base = k_ptr + (batch * length * heads + head) * K
    w_base = w_ptr + (batch * length * heads + head) * K
    u_base = u_ptr + (batch * length * heads + head) * V
    v_base = v_ptr + (batch * length * heads + head) * V
    g_base = g_ptr + batch * length * heads + head
    h_base = h_ptr + (batch * chunks * heads + head) * K * V
    state = tl.zeros([BLOCK_V, BLOCK_K], dtype=tl.float32)
    for c in range(0, chunks):
        h_at = c * heads * K * V + keys[None, :] * V + cols[:, None]
        tl.store(h_base + h_at, state, mask=col_mask[:, None] & key_mask[None, :])
        token = (c * C + row) * heads
        w = tl.load(w_base + token[:, None] * K + keys[None, :], mask=key_mask[None, :], other=0.0)
        u = tl.load(u_base + token[None, :] * V + cols[:, None], mask=col_mask[:, None], other=0.0)
        new = u - tl.dot(state, tl.trans(w), input_precision=PRECISION)
        tl.store(v_base + token[None, :] * V + cols[:, None], new, mask=col_mask[:, None])
        last = tl.load(g_base + (c * C + C - 1) * heads)
        kept = new * tl.exp(last - tl.load(g_base + token))[None, :]
        k = tl.load(k_base + token[:, None] * K + keys[None, :], mask=key_mask[None, :], other=0.0)
        state = state * tl.exp(last) + tl.dot(kept, k, input_precision=PRECISION)


def custom_kernel(data):
    k, w, u, g = data
    batch, length, heads, key = k.shape
    value = u.shape[-1]
    h = torch.empty((batch, length // SPAN, heads, key, value), device=k.device, dtype=k.dtype)
    v_new = torch.empty_like(u)
    transposed_states[(triton.cdiv(value, BLOCK_V), batch * heads)](
        k,
        w,
        u,
        g,
        h,
        v_new,
        length,
        heads,
        K=key,
        V=value,
        BLOCK_K=triton.next_power_of_2(key),
        BLOCK_V=BLOCK_V,
        C=SPAN,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return h, v_new
