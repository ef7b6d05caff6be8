import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 256
BLOCK_K = 64
GROUP_M = 8
NUM_WARPS = 8
NUM_STAGES = 3
DOT_TYPES = {"cuda": tl.bfloat16, "cpu": tl.float32}


@triton.jit
def gelu(z):
    return z * tl.sigmoid(1.5957691216057308 * (z + 0.044715 * z * z * z))


@triton.jit
def linear_gelu(
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
    GROUP_M: tl.constexpr,
    DOT: tl.constexpr,
):
    program = tl.program_id(0)
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    group = program // (GROUP_M * tiles_n)
    first_m = group * GROUP_M
    height = tl.minimum(tiles_m - first_m, GROUP_M)
    within = program % (GROUP_M * tiles_n)
    rows = (first_m + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = within // height * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + (rows % m)[:, None] * k + inner[None, :]
    w_ptrs = w_ptr + (cols % n)[None, :] * k + inner[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        x = tl.load(x_ptrs, mask=inner[None, :] < k - start, other=0.0)
        w = tl.load(w_ptrs, mask=inner[:, None] < k - start, other=0.0)
        total = tl.dot(x.to(DOT), w.to(DOT), total)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    bias = tl.load(bias_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
    y = gelu(total + bias[None, :])
    mask = (rows < m)[:, None] & (cols < n)[None, :]
    tl.store(out_ptr + rows[:, None] * n + cols[None, :], y.to(tl.bfloat16), mask=mask)


def custom_kernel(data):
    x, weight, bias = data
    m, k = x.shape
    n = weight.shape[0]
    out = torch.empty((m, n), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(m, BLOCK_M) * triton.cdiv(n, BLOCK_N),)
    linear_gelu[grid](
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
        GROUP_M=GROUP_M,
        DOT=DOT_TYPES[x.device.type],
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
