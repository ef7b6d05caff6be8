import torch
import triton
import triton.language as tl

ROWS = 32
MAX_COLS = 64
NUM_WARPS = 4


@triton.jit
def add_rows(x_ptr, ids_ptr, out_ptr, rows, width, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    mask = (row < rows)[:, None] & (cols < width)[None, :]
    segment = tl.load(ids_ptr + row, mask=row < rows, other=0)
    x = tl.load(x_ptr + row[:, None] * width + cols[None, :], mask=mask, other=0.0)
    tl.atomic_add(out_ptr + segment[:, None] * width + cols[None, :], x, mask=mask, sem="relaxed")


def custom_kernel(data):
    x, ids, offsets = data
    rows, width = x.shape
    out = torch.zeros((offsets.shape[0] - 1, width), device=x.device, dtype=x.dtype)
    cols = min(MAX_COLS, triton.next_power_of_2(width))
    grid = (triton.cdiv(rows, ROWS), triton.cdiv(width, cols))
    add_rows[grid](x, ids, out, rows, width, ROWS=ROWS, COLS=cols, num_warps=NUM_WARPS)
    return out
