import torch
import triton
import triton.language as tl

BLOCK_COLS = 1024
ROWS = 8
NUM_WARPS = 4


@triton.jit
def bias_gelu_rows(z_ptr, bias_ptr, m, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < n
    bias = tl.load(bias_ptr + cols, mask=inside, other=0.0).to(tl.float32)
    first = tl.program_id(1) * ROWS
    for row in range(first, tl.minimum(first + ROWS, m)):
        z = tl.load(z_ptr + row * n + cols, mask=inside, other=0.0).to(tl.float32) + bias
        y = z * tl.sigmoid(1.5957691216057308 * (z + 0.044715 * z * z * z))
        tl.store(z_ptr + row * n + cols, y.to(tl.bfloat16), mask=inside)


def custom_kernel(data):
    x, weight, bias = data
    m = x.shape[0]
    n = weight.shape[0]
    z = torch.nn.functional.linear(x, weight)
    grid = (triton.cdiv(n, BLOCK_COLS), triton.cdiv(m, ROWS))
    bias_gelu_rows[grid](z, bias, m, n, ROWS=ROWS, BLOCK=BLOCK_COLS, num_warps=NUM_WARPS)
    return z
