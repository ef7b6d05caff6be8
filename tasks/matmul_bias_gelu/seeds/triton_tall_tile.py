import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64
BLOCK_K = 128
NUM_WARPS = 4
NUM_STAGES = 3
DOT_TYPES = {"cuda": tl.bfloat16, "cpu": tl.float32}


@triton.jit
def linear_gelu_strip(
    x_ptr,
    w_ptr,
    bias_ptr,
    out_ptr,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    DOT: tl.constexpr,
):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    bias = tl.load(bias_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
    total = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32) + bias[:, None]
    for start in range(0, k, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        w = tl.load(
            w_ptr + cols[:, None] * k + inner[None, :], mask=(cols < n)[:, None] & (inner < k)[None, :], other=0.0
        )
        x = tl.load(
            x_ptr + rows[:, None] * k + inner[None, :], mask=(rows < m)[:, None] & (inner < k)[None, :], other=0.0
        )
        total = tl.dot(w.to(DOT), tl.trans(x.to(DOT)), total)
    z = tl.trans(total)
    e = tl.exp(-2.0 * 0.7978845608028654 * tl.abs(z + 0.044715 * z * z * z))
    tanh = (1.0 - e) / (1.0 + e)
    y = 0.5 * z * (1.0 + tl.where(z < 0.0, -tanh, tanh))
    mask = (rows < m)[:, None] & (cols < n)[None, :]
    tl.store(out_ptr + rows[:, None] * n + cols[None, :], y.to(tl.bfloat16), mask=mask)


def custom_kernel(data):
    x, weight, bias = data
    m, k = x.shape
    n = weight.shape[0]
    out = torch.empty((m, n), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(n, BLOCK_N), triton.cdiv(m, BLOCK_M))
    linear_gelu_strip[grid](
        x,
        weight,
        bias,
        out,
        m,
        n,
        k,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        DOT=DOT_TYPES[x.device.type],
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
