import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 64
PROGRAMS = 132
MATMUL_WARPS = 8
MATMUL_STAGES = 3
ACTIVATION_BLOCK = 4096
ACTIVATION_WARPS = 8
DOT_TYPES = {"cuda": tl.bfloat16, "cpu": tl.float32}


@triton.jit
def product(
    x_ptr,
    w_ptr,
    z_ptr,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    DOT: tl.constexpr,
):
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles = tiles_m * tl.cdiv(n, BLOCK_N)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        rows = tile % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = tile // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, k, BLOCK_K):
            inner = start + tl.arange(0, BLOCK_K)
            x = tl.load(
                x_ptr + rows[:, None] * k + inner[None, :], mask=(rows < m)[:, None] & (inner < k)[None, :], other=0.0
            )
            w = tl.load(
                w_ptr + cols[None, :] * k + inner[:, None], mask=(cols < n)[None, :] & (inner < k)[:, None], other=0.0
            )
            total = tl.dot(x.to(DOT), w.to(DOT), total)
        mask = (rows < m)[:, None] & (cols < n)[None, :]
        tl.store(z_ptr + rows[:, None] * n + cols[None, :], total, mask=mask)


@triton.jit
def activate(z_ptr, bias_ptr, out_ptr, numel, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < numel
    z = tl.load(z_ptr + offsets, mask=mask, other=0.0)
    z += tl.load(bias_ptr + offsets % n, mask=mask, other=0.0).to(tl.float32)
    y = z / (1.0 + tl.exp(-1.5957691216057308 * z * (1.0 + 0.044715 * z * z)))
    tl.store(out_ptr + offsets, y.to(tl.bfloat16), mask=mask)


def custom_kernel(data):
    x, weight, bias = data
    m, k = x.shape
    n = weight.shape[0]
    z = torch.empty((m, n), device=x.device, dtype=torch.float32)
    out = torch.empty((m, n), device=x.device, dtype=x.dtype)
    tiles = triton.cdiv(m, BLOCK_M) * triton.cdiv(n, BLOCK_N)
    product[(min(PROGRAMS, tiles),)](
        x,
        weight,
        z,
        m,
        n,
        k,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        DOT=DOT_TYPES[x.device.type],
        num_warps=MATMUL_WARPS,
        num_stages=MATMUL_STAGES,
    )
    activate[(triton.cdiv(m * n, ACTIVATION_BLOCK),)](
        z, bias, out, m * n, n, BLOCK=ACTIVATION_BLOCK, num_warps=ACTIVATION_WARPS
    )
    return out
