import torch
import triton
import triton.language as tl

PROGRAMS = 1056
ROWS = 16
NUM_WARPS = 4


@triton.jit
def rotate_persistent(
    q_ptr,
    k_ptr,
    cos_ptr,
    sin_ptr,
    q_out_ptr,
    k_out_ptr,
    q_rows,
    k_rows,
    length,
    q_heads,
    k_heads,
    half,
    ROWS: tl.constexpr,
    HALF: tl.constexpr,
):
    q_tiles = tl.cdiv(q_rows, ROWS)
    tiles = q_tiles + tl.cdiv(k_rows, ROWS)
    index = tl.arange(0, HALF)
    inside = (index < half)[None, :]
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        if tile < q_tiles:
            x_ptr = q_ptr
            out_ptr = q_out_ptr
            heads = q_heads
            rows = q_rows
            first_row = tile * ROWS
        else:
            x_ptr = k_ptr
            out_ptr = k_out_ptr
            heads = k_heads
            rows = k_rows
            first_row = (tile - q_tiles) * ROWS
        row = first_row + tl.arange(0, ROWS)
        mask = (row < rows)[:, None] & inside
        table = (row // heads % length)[:, None] * half + index[None, :]
        c = tl.load(cos_ptr + table, mask=mask, other=0.0)
        s = tl.load(sin_ptr + table, mask=mask, other=0.0)
        at = row.to(tl.int64)[:, None] * 2 * half + index[None, :]
        first = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        second = tl.load(x_ptr + at + half, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + at, (first * c - second * s).to(tl.bfloat16), mask=mask)
        tl.store(out_ptr + at + half, (second * c + first * s).to(tl.bfloat16), mask=mask)


def custom_kernel(data):
    q, k, cos, sin = data
    half = cos.shape[1]
    q_rows = q.numel() // (2 * half)
    k_rows = k.numel() // (2 * half)
    q_out = torch.empty_like(q)
    k_out = torch.empty_like(k)
    tiles = triton.cdiv(q_rows, ROWS) + triton.cdiv(k_rows, ROWS)
    rotate_persistent[(min(PROGRAMS, tiles),)](
        q,
        k,
        cos,
        sin,
        q_out,
        k_out,
        q_rows,
        k_rows,
        q.shape[1],
        q.shape[2],
        k.shape[2],
        half,
        ROWS=ROWS,
        HALF=triton.next_power_of_2(half),
        num_warps=NUM_WARPS,
    )
    return q_out, k_out
