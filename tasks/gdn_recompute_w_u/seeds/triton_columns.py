import torch
import triton
import triton.language as tl

SPAN = 64
BLOCK_N = 16
PRECISION = "ieee"
NUM_WARPS = 4


@triton.jit
def column_block(
    x_ptr,
    beta_ptr,
    a_ptr,
    g_ptr,
    out_ptr,
    chunk,
    head,
    start,
    heads,
    WIDTH: tl.constexpr,
    GATED: tl.constexpr,
    BLOCK_N: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    row = tl.arange(0, C)
    token = (chunk * C + row) * heads + head
    scale = tl.load(beta_ptr + token)
    if GATED:
        scale *= tl.exp(tl.load(g_ptr + token))
    at = token[:, None] * WIDTH + (start + tl.arange(0, BLOCK_N))[None, :]
    x = tl.load(x_ptr + at) * scale[:, None]
    a = tl.load(a_ptr + token[:, None] * C + row[None, :])
    tl.store(out_ptr + at, tl.dot(a, x, input_precision=PRECISION))


@triton.jit
def columns_w_u(
    k_ptr,
    v_ptr,
    beta_ptr,
    a_ptr,
    g_ptr,
    w_ptr,
    u_ptr,
    heads,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_N: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block = tl.program_id(0)
    head = tl.program_id(1)
    chunk = tl.program_id(2).to(tl.int64)
    if block < K // BLOCK_N:
        start = block * BLOCK_N
        column_block(k_ptr, beta_ptr, a_ptr, g_ptr, w_ptr, chunk, head, start, heads, K, True, BLOCK_N, C, PRECISION)
    else:
        start = (block - K // BLOCK_N) * BLOCK_N
        column_block(v_ptr, beta_ptr, a_ptr, g_ptr, u_ptr, chunk, head, start, heads, V, False, BLOCK_N, C, PRECISION)


def custom_kernel(data):
    k, v, beta, a, g = data
    batch, length, heads, key = k.shape
    value = v.shape[-1]
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    grid = ((key + value) // BLOCK_N, heads, batch * length // SPAN)
    columns_w_u[grid](
        k,
        v,
        beta,
        a,
        g,
        w,
        u,
        heads,
        K=key,
        V=value,
        BLOCK_N=BLOCK_N,
        C=SPAN,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
    )
    return w, u
