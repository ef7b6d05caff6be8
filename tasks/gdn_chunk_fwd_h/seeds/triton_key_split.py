import torch
import triton
import triton.language as tl

SPAN = 64
BLOCK_V = 32
PRECISION = "tf32x3"
NUM_WARPS = 8


@triton.jit
def state_at(h_ptr, base, start, cols, K: tl.constexpr, V: tl.constexpr, HALF: tl.constexpr):
    keys = start + tl.arange(0, HALF)
    return h_ptr + base + keys[:, None] * V + cols[None, :], (keys < K)[:, None] & (cols < V)[None, :]


@triton.jit
def key_rows(x_ptr, token, start, K: tl.constexpr, HALF: tl.constexpr):
    keys = start + tl.arange(0, HALF)
    return tl.load(x_ptr + token[:, None] * K + keys[None, :], mask=(keys < K)[None, :], other=0.0)


@triton.jit
def split_states(
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
    HALF: tl.constexpr,
    BLOCK_V: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    pair = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    batch = (pair // heads).to(tl.int64)
    head = pair % heads
    row = tl.arange(0, C)
    chunks = length // C
    first = tl.zeros([HALF, BLOCK_V], dtype=tl.float32)
    second = tl.zeros([HALF, BLOCK_V], dtype=tl.float32)
    for c in range(0, chunks):
        base = ((batch * chunks + c) * heads + head) * K * V
        at, mask = state_at(h_ptr, base, 0, cols, K, V, HALF)
        tl.store(at, first, mask=mask)
        at, mask = state_at(h_ptr, base, HALF, cols, K, V, HALF)
        tl.store(at, second, mask=mask)
        token = (batch * length + c * C + row) * heads + head
        erased = tl.dot(key_rows(w_ptr, token, 0, K, HALF), first, input_precision=PRECISION)
        erased = tl.dot(key_rows(w_ptr, token, HALF, K, HALF), second, acc=erased, input_precision=PRECISION)
        u_mask = (cols < V)[None, :]
        u_at = token[:, None] * V + cols[None, :]
        new = tl.load(u_ptr + u_at, mask=u_mask, other=0.0) - erased
        tl.store(v_ptr + u_at, new, mask=u_mask)
        last = tl.load(g_ptr + (batch * length + c * C + C - 1) * heads + head)
        kept = new * tl.exp(last - tl.load(g_ptr + token))[:, None]
        decay = tl.exp(last)
        first *= decay
        second *= decay
        first += tl.dot(tl.trans(key_rows(k_ptr, token, 0, K, HALF)), kept, input_precision=PRECISION)
        second += tl.dot(tl.trans(key_rows(k_ptr, token, HALF, K, HALF)), kept, input_precision=PRECISION)


def custom_kernel(data):
    k, w, u, g = data
    batch, length, heads, key = k.shape
    value = u.shape[-1]
    h = torch.empty((batch, length // SPAN, heads, key, value), device=k.device, dtype=k.dtype)
    v_new = torch.empty_like(u)
    split_states[(batch * heads, triton.cdiv(value, BLOCK_V))](
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
        HALF=triton.next_power_of_2(key) // 2,
        BLOCK_V=BLOCK_V,
        C=SPAN,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
    )
    return h, v_new
