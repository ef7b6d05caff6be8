import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 64
PROGRAMS = 264
NUM_WARPS = 4
NUM_STAGES = 4
DOT_TYPES = {"cuda": tl.bfloat16, "cpu": tl.float32}


@triton.jit
def matmul_persistent(
    a_ptr,
    b_ptr,
    out_ptr,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    DOT: tl.constexpr,
):
    tiles_n = tl.cdiv(n, BLOCK_N)
    tiles = tl.cdiv(m, BLOCK_M) * tiles_n
    inner = tl.arange(0, BLOCK_K)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        rows = tile // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = tile % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
        a_rows = a_ptr + tl.where(rows < m, rows, 0)[:, None] * k
        b_cols = b_ptr + tl.where(cols < n, cols, 0)[None, :]
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, k, BLOCK_K):
            at = start + inner
            a = tl.load(a_rows + at[None, :], mask=(at < k)[None, :], other=0.0)
            b = tl.load(b_cols + at[:, None] * n, mask=(at < k)[:, None], other=0.0)
            total = tl.dot(a.to(DOT), b.to(DOT), total)
        mask = (rows < m)[:, None] & (cols < n)[None, :]
        tl.store(out_ptr + rows[:, None] * n + cols[None, :], total.to(tl.bfloat16), mask=mask)


def custom_kernel(data):
    a, b = data
    m, k = a.shape
    n = b.shape[1]
    out = torch.empty((m, n), device=a.device, dtype=a.dtype)
    tiles = triton.cdiv(m, BLOCK_M) * triton.cdiv(n, BLOCK_N)
    matmul_persistent[(min(PROGRAMS, tiles),)](
        a,
        b,
        out,
        m,
        n,
        k,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        DOT=DOT_TYPES[a.device.type],
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
