import torch
import triton
import triton.language as tl

SPAN = 64
PROGRAMS = 264
BLOCK_N = 32
PRECISION = "tf32x3"
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def persistent_w_u(
    k_ptr,
    v_ptr,
    beta_ptr,
    a_ptr,
    g_ptr,
    w_ptr,
    u_ptr,
    heads,
    count,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_N: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    row = tl.arange(0, C)
    for index in range(tl.program_id(0), count, tl.num_programs(0)):
        chunk = tl.cast(index // heads, tl.int64)
        head = index % heads
        token = (chunk * C + row) * heads + head
        scaled = tl.load(a_ptr + token[:, None] * C + row[None, :]) * tl.load(beta_ptr + token)[None, :]
        for start in range(0, V, BLOCK_N):
            cols = start + tl.arange(0, BLOCK_N)
            mask = (cols < V)[None, :]
            at = token[:, None] * V + cols[None, :]
            v = tl.load(v_ptr + at, mask=mask, other=0.0)
            tl.store(u_ptr + at, tl.dot(scaled, v, input_precision=PRECISION), mask=mask)
        gated = scaled * tl.exp(tl.load(g_ptr + token))[None, :]
        for start in range(0, K, BLOCK_N):
            cols = start + tl.arange(0, BLOCK_N)
            mask = (cols < K)[None, :]
            at = token[:, None] * K + cols[None, :]
            k = tl.load(k_ptr + at, mask=mask, other=0.0)
            tl.store(w_ptr + at, tl.dot(gated, k, input_precision=PRECISION), mask=mask)


def custom_kernel(data):
    k, v, beta, a, g = data
    batch, length, heads, key = k.shape
    value = v.shape[-1]
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    count = batch * length // SPAN * heads
    persistent_w_u[(min(count, PROGRAMS),)](
        k,
        v,
        beta,
        a,
        g,
        w,
        u,
        heads,
        count,
        K=key,
        V=value,
        BLOCK_N=BLOCK_N,
        C=SPAN,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return w, u
