import torch
import triton
import triton.language as tl

BLOCK_M = 32
BLOCK_N = 64
BLOCK_K = 32
PROGRAMS = 1056
NUM_WARPS = 4
NUM_STAGES = 2
HIGH_BITS = -8192


@triton.jit
def high_part(value, HIGH_BITS: tl.constexpr):
    return (value.to(tl.int32, bitcast=True) & HIGH_BITS).to(tl.float32, bitcast=True)


@triton.jit
def split_products(
    a_ptr,
    b_ptr,
    out_ptr,
    batch,
    m,
    k,
    n,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HIGH_BITS: tl.constexpr,
):
    strips = tl.cdiv(m, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    for tile in range(tl.program_id(0), batch * strips, tl.num_programs(0)):
        matrix = tl.cast(tile // strips, tl.int64)
        rows = tile % strips * BLOCK_M + tl.arange(0, BLOCK_M)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, k, BLOCK_K):
            inner = start + tl.arange(0, BLOCK_K)
            a = tl.load(
                a_ptr + matrix * m * k + rows[:, None] * k + inner[None, :],
                mask=(rows < m)[:, None] & (inner < k)[None, :],
                other=0.0,
            )
            b = tl.load(
                b_ptr + matrix * k * n + inner[:, None] * n + cols[None, :],
                mask=(inner < k)[:, None] & (cols < n)[None, :],
                other=0.0,
            )
            a_high = high_part(a, HIGH_BITS)
            b_high = high_part(b, HIGH_BITS)
            total = tl.dot(a - a_high, b_high, total, input_precision="tf32")
            total = tl.dot(a_high, b - b_high, total, input_precision="tf32")
            total = tl.dot(a_high, b_high, total, input_precision="tf32")
        target = out_ptr + matrix * m * n + rows[:, None] * n + cols[None, :]
        tl.store(target, total, mask=(rows < m)[:, None] & (cols < n)[None, :])


def custom_kernel(data):
    a, b = data
    batch, m, k = a.shape
    n = b.shape[2]
    out = torch.empty((batch, m, n), device=a.device, dtype=a.dtype)
    grid = (min(PROGRAMS, batch * triton.cdiv(m, BLOCK_M)),)
    split_products[grid](
        a,
        b,
        out,
        batch,
        m,
        k,
        n,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        HIGH_BITS=HIGH_BITS,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
