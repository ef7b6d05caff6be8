import torch
import triton
import triton.language as tl

SPAN = 64
BLOCK_V = 16
PRECISION = "ieee"
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def value_block_states(
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
    pair = tl.program_id(1)
    batch = (pair // heads).to(tl.int64)
    head = pair % heads
    row = tl.arange(0, C)
    keys = tl.arange(0, BLOCK_K)
    key_mask = keys < K
    chunks = length // C
    state = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    for c in range(0, chunks):
        h_at = ((batch * chunks + c) * heads + head) * K * V + keys[:, None] * V + cols[None, :]
        tl.store(h_ptr + h_at, state, mask=key_mask[:, None])
        token = (batch * length + c * C + row) * heads + head
        w = tl.load(w_ptr + token[:, None] * K + keys[None, :], mask=key_mask[None, :], other=0.0)
        u = tl.load(u_ptr + token[:, None] * V + cols[None, :])
        new = u - tl.dot(w, state, input_precision=PRECISION)
        tl.store(v_ptr + token[:, None] * V + cols[None, :], new)
        last = tl.load(g_ptr + (batch * length + c * C + C - 1) * heads + head)
        kept = new * tl.exp(last - tl.load(g_ptr + token))[:, None]
        k = tl.load(k_ptr + token[None, :] * K + keys[:, None], mask=key_mask[:, None], other=0.0)
        state = tl.dot(k, kept, acc=state * tl.exp(last), input_precision=PRECISION)


def custom_kernel(data):
    k, w, u, g = data
    batch, length, heads, key = k.shape
    value = u.shape[-1]
    h = torch.empty((batch, length // SPAN, heads, key, value), device=k.device, dtype=k.dtype)
    v_new = torch.empty_like(u)
    value_block_states[(value // BLOCK_V, batch * heads)](
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
