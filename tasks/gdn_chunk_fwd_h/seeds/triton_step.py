import torch
import triton
import triton.language as tl

SPAN = 64
BLOCK_V = 32
PRECISION = "tf32x3"
NUM_WARPS = 4


@triton.jit(do_not_specialize=["c"])
def chunk_step(
    k_ptr,
    w_ptr,
    u_ptr,
    g_ptr,
    h_ptr,
    v_ptr,
    c,
    chunks,
    heads,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    head = tl.program_id(0)
    batch = tl.program_id(1).to(tl.int64)
    cols = tl.program_id(2) * BLOCK_V + tl.arange(0, BLOCK_V)
    keys = tl.arange(0, BLOCK_K)
    row = tl.arange(0, C)
    col_mask = (cols < V)[None, :]
    key_mask = (keys < K)[None, :]
    state_mask = (keys < K)[:, None] & col_mask
    token = ((batch * chunks + c) * C + row) * heads + head
    h_at = ((batch * chunks + c) * heads + head) * K * V + keys[:, None] * V + cols[None, :]
    state = tl.load(h_ptr + h_at, mask=state_mask, other=0.0)
    w = tl.load(w_ptr + token[:, None] * K + keys[None, :], mask=key_mask, other=0.0)
    u = tl.load(u_ptr + token[:, None] * V + cols[None, :], mask=col_mask, other=0.0)
    new = u - tl.dot(w, state, input_precision=PRECISION)
    tl.store(v_ptr + token[:, None] * V + cols[None, :], new, mask=col_mask)
    if c + 1 < chunks:
        last = tl.load(g_ptr + ((batch * chunks + c) * C + C - 1) * heads + head)
        factor = tl.exp(last - tl.load(g_ptr + token))
        k = tl.load(k_ptr + token[:, None] * K + keys[None, :], mask=key_mask, other=0.0) * factor[:, None]
        state = state * tl.exp(last) + tl.dot(tl.trans(k), new, input_precision=PRECISION)
        tl.store(h_ptr + h_at + heads * K * V, state, mask=state_mask)


def custom_kernel(data):
    k, w, u, g = data
    batch, length, heads, key = k.shape
    value = u.shape[-1]
    chunks = length // SPAN
    h = torch.empty((batch, chunks, heads, key, value), device=k.device, dtype=k.dtype)
    h[:, 0].zero_()
    v_new = torch.empty_like(u)
    grid = (heads, batch, triton.cdiv(value, BLOCK_V))
    for c in range(chunks):
        chunk_step[grid](
            k,
            w,
            u,
            g,
            h,
            v_new,
            c,
            chunks,
            heads,
            K=key,
            V=value,
            BLOCK_K=triton.next_power_of_2(key),
            BLOCK_V=BLOCK_V,
            C=SPAN,
            PRECISION=PRECISION,
            num_warps=NUM_WARPS,
        )
    return h, v_new
