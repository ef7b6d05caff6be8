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
def matmul_grouped(
    a_ptr,
    b_ptr,
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
    tile_m = first_m + within % height
    tile_n = within // height

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (rows % m)[:, None] * k + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * n + (cols % n)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        a = tl.load(a_ptrs, mask=inner[None, :] < k - start, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < k - start, other=0.0)
        total = tl.dot(a.to(DOT), b.to(DOT), total)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * n
    mask = (rows < m)[:, None] & (cols < n)[None, :]
    tl.store(out_ptr + rows[:, None] * n + cols[None, :], total.to(tl.bfloat16), mask=mask)


def custom_kernel(data):
    a, b = data
    m, k = a.shape
    n = b.shape[1]
    out = torch.empty((m, n), device=a.device, dtype=a.dtype)
    grid = (triton.cdiv(m, BLOCK_M) * triton.cdiv(n, BLOCK_N),)
    matmul_grouped[grid](
        a,
        b,
        out,
        m,
        n,
        k,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        GROUP_M=GROUP_M,
        DOT=DOT_TYPES[a.device.type],
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
