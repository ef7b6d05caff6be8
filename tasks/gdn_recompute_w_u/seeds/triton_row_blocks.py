import torch
import triton
import triton.language as tl

SPAN = 64
BLOCK_M = 16
PRECISION = "ieee"
NUM_WARPS = 4
NUM_STAGES = 1


@triton.jit
def row_block_w_u(
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
    BLOCK_M: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    block = tl.program_id(0)
    head = tl.program_id(1)
    chunk = tl.program_id(2).to(tl.int64)
    row = tl.arange(0, BLOCK_M)
    k_cols = tl.arange(0, BLOCK_K)
    v_cols = tl.arange(0, BLOCK_V)
    k_mask = (k_cols < K)[None, :]
    v_mask = (v_cols < V)[None, :]
    out_token = (chunk * C + block * BLOCK_M + row) * heads + head
    w = tl.zeros([BLOCK_M, BLOCK_K], dtype=tl.float32)
    u = tl.zeros([BLOCK_M, BLOCK_V], dtype=tl.float32)
    for start in range(0, (block + 1) * BLOCK_M, BLOCK_M):
        token = (chunk * C + start + row) * heads + head
        beta = tl.load(beta_ptr + token)
        gain = beta * tl.exp(tl.load(g_ptr + token))
        a = tl.load(a_ptr + out_token[:, None] * C + (start + row)[None, :])
        v = tl.load(v_ptr + token[:, None] * V + v_cols[None, :], mask=v_mask, other=0.0)
        u = tl.dot(a * beta[None, :], v, acc=u, input_precision=PRECISION)
        k = tl.load(k_ptr + token[:, None] * K + k_cols[None, :], mask=k_mask, other=0.0)
        w = tl.dot(a * gain[None, :], k, acc=w, input_precision=PRECISION)
    tl.store(w_ptr + out_token[:, None] * K + k_cols[None, :], w, mask=k_mask)
    tl.store(u_ptr + out_token[:, None] * V + v_cols[None, :], u, mask=v_mask)


def custom_kernel(data):
    k, v, beta, a, g = data
    batch, length, heads, key = k.shape
    value = v.shape[-1]
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    row_block_w_u[(SPAN // BLOCK_M, heads, batch * length // SPAN)](
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
        BLOCK_M=BLOCK_M,
        C=SPAN,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return w, u
