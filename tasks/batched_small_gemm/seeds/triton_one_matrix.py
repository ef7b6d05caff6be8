import torch
import triton
import triton.language as tl

LEAST = 16
PRECISION = "ieee"
NUM_WARPS = 4


@triton.jit
def one_product(
    a_ptr,
    b_ptr,
    out_ptr,
    m,
    k,
    n,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PRECISION: tl.constexpr,
):
    matrix = tl.program_id(0).to(tl.int64)
    rows = tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
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
    out = tl.dot(a, b, input_precision=PRECISION)
    target = out_ptr + matrix * m * n + rows[:, None] * n + cols[None, :]
    tl.store(target, out, mask=(rows < m)[:, None] & (cols < n)[None, :])


def block(size):
    return max(LEAST, triton.next_power_of_2(size))


def custom_kernel(data):
    a, b = data
    batch, m, k = a.shape
    n = b.shape[2]
    out = torch.empty((batch, m, n), device=a.device, dtype=a.dtype)
    one_product[(batch,)](
        a,
        b,
        out,
        m,
        k,
        n,
        BLOCK_M=block(m),
        BLOCK_K=block(k),
        BLOCK_N=block(n),
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
    )
    return out
