import torch
import triton
import triton.language as tl

NUM_WARPS = 4


@triton.jit
def outer_products(a_ptr, b_ptr, out_ptr, m, k, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    matrix = tl.program_id(0).to(tl.int64)
    rows = tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    a_rows = a_ptr + matrix * m * k + rows * k
    b_cols = b_ptr + matrix * k * n + cols
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for i in range(k):
        a = tl.load(a_rows + i, mask=rows < m, other=0.0)
        b = tl.load(b_cols + i * n, mask=cols < n, other=0.0)
        total += a[:, None] * b[None, :]
    target = out_ptr + matrix * m * n + rows[:, None] * n + cols[None, :]
    tl.store(target, total, mask=(rows < m)[:, None] & (cols < n)[None, :])


def custom_kernel(data):
    a, b = data
    batch, m, k = a.shape
    n = b.shape[2]
    out = torch.empty((batch, m, n), device=a.device, dtype=a.dtype)
    outer_products[(batch,)](
        a,
        b,
        out,
        m,
        k,
        n,
        BLOCK_M=triton.next_power_of_2(m),
        BLOCK_N=triton.next_power_of_2(n),
        num_warps=NUM_WARPS,
    )
    return out
