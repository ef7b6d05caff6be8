import torch
import triton
import triton.language as tl

ROWS = 4
NUM_WARPS = 2


@triton.jit
def row_strip(a_ptr, b_ptr, out_ptr, m, k, n, ROWS: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr):
    matrix = tl.program_id(0).to(tl.int64)
    inner = tl.arange(0, BLOCK_K)
    cols = tl.arange(0, BLOCK_N)
    b = tl.load(
        b_ptr + matrix * k * n + inner[:, None] * n + cols[None, :],
        mask=(inner < k)[:, None] & (cols < n)[None, :],
        other=0.0,
    )
    first = tl.program_id(1) * ROWS
    for row in range(first, tl.minimum(first + ROWS, m)):
        a = tl.load(a_ptr + matrix * m * k + row * k + inner, mask=inner < k, other=0.0)
        out = tl.sum(a[:, None] * b, axis=0)
        tl.store(out_ptr + matrix * m * n + row * n + cols, out, mask=cols < n)


def custom_kernel(data):
    a, b = data
    batch, m, k = a.shape
    n = b.shape[2]
    out = torch.empty((batch, m, n), device=a.device, dtype=a.dtype)
    row_strip[(batch, triton.cdiv(m, ROWS))](
        a,
        b,
        out,
        m,
        k,
        n,
        ROWS=ROWS,
        BLOCK_K=triton.next_power_of_2(k),
        BLOCK_N=triton.next_power_of_2(n),
        num_warps=NUM_WARPS,
    )
    return out
