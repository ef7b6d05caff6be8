import torch
import triton
import triton.language as tl

SPAN = 64
PRECISION = "tf32x3"
NUM_WARPS = 4


@triton.jit
def chunk_w_u(
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
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    chunk = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    row = tl.arange(0, C)
    token = (chunk * C + row) * heads + head
    beta = tl.load(beta_ptr + token)
    gain = beta * tl.exp(tl.load(g_ptr + token))
    a = tl.load(a_ptr + token[:, None] * C + row[None, :])
    v_cols = tl.arange(0, BLOCK_V)
    v_at = token[:, None] * V + v_cols[None, :]
    v_mask = (v_cols < V)[None, :]
    v = tl.load(v_ptr + v_at, mask=v_mask, other=0.0) * beta[:, None]
    tl.store(u_ptr + v_at, tl.dot(a, v, input_precision=PRECISION), mask=v_mask)
    k_cols = tl.arange(0, BLOCK_K)
    k_at = token[:, None] * K + k_cols[None, :]
    k_mask = (k_cols < K)[None, :]
    k = tl.load(k_ptr + k_at, mask=k_mask, other=0.0) * gain[:, None]
    tl.store(w_ptr + k_at, tl.dot(a, k, input_precision=PRECISION), mask=k_mask)


def custom_kernel(data):
    k, v, beta, a, g = data
    batch, length, heads, key = k.shape
    value = v.shape[-1]
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    chunk_w_u[(batch * length // SPAN, heads)](
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
        BLOCK_K=triton.next_power_of_2(key),
        BLOCK_V=triton.next_power_of_2(value),
        C=SPAN,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
    )
    return w, u
