import torch
import triton
import triton.language as tl

ROW_WARPS = 4
TILE_ROWS = 64
TILE_COLS = 64
COLUMN_WARPS = 8


@triton.jit
def input_gradient(dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    dy = tl.load(dy_ptr + row * n + cols, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0).to(tl.float32)
    inner = dy * tl.load(w_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = tl.load(rstd_ptr + row)
    normal = (x - tl.load(mean_ptr + row)) * rstd
    second = tl.sum(inner * normal, axis=0) / n
    dx = rstd * (inner - (normal * second + tl.sum(inner, axis=0) / n))
    tl.store(dx_ptr + row * n + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)


@triton.jit
def parameter_gradients(
    dy_ptr, x_ptr, mean_ptr, rstd_ptr, dw_ptr, db_ptr, rows, n, ROWS: tl.constexpr, COLS: tl.constexpr
):
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    dw = tl.zeros([ROWS, COLS], dtype=tl.float32)
    db = tl.zeros([ROWS, COLS], dtype=tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & (cols < n)[None, :]
        offsets = row.to(tl.int64)[:, None] * n + cols[None, :]
        dy = tl.load(dy_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row, mask=row < rows, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row < rows, other=0.0)
        dw += dy * (x - mean[:, None]) * rstd[:, None]
        db += dy
    tl.store(dw_ptr + cols, tl.sum(dw, axis=0).to(dw_ptr.dtype.element_ty), mask=cols < n)
    tl.store(db_ptr + cols, tl.sum(db, axis=0).to(db_ptr.dtype.element_ty), mask=cols < n)


def custom_kernel(data):
    dy, x, weight, mean, rstd = data
    rows, n = x.shape
    dx = torch.empty_like(x)
    dweight = torch.empty_like(weight)
    dbias = torch.empty_like(weight)
    block = triton.next_power_of_2(n)
    input_gradient[(rows,)](dy, x, weight, mean, rstd, dx, n, BLOCK=block, num_warps=ROW_WARPS)
    parameter_gradients[(triton.cdiv(n, TILE_COLS),)](
        dy, x, mean, rstd, dweight, dbias, rows, n, ROWS=TILE_ROWS, COLS=TILE_COLS, num_warps=COLUMN_WARPS
    )
    return dx, dweight, dbias
