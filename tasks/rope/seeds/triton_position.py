import torch
import triton
import triton.language as tl

ROWS = 32
NUM_WARPS = 4


@triton.jit
def rotate_position(
    x_ptr, cos_ptr, sin_ptr, out_ptr, batch, length, heads, half, ROWS: tl.constexpr, HALF: tl.constexpr
):
    position = tl.program_id(0)
    index = tl.arange(0, HALF)
    inside = (index < half)[None, :]
    c = tl.load(cos_ptr + position * half + index, mask=index < half, other=0.0)[None, :]
    s = tl.load(sin_ptr + position * half + index, mask=index < half, other=0.0)[None, :]
    for start in range(0, batch * heads, ROWS):
        row = start + tl.arange(0, ROWS)
        mask = (row < batch * heads)[:, None] & inside
        line = (row // heads).to(tl.int64) * length * heads + position * heads + row % heads
        at = line[:, None] * 2 * half + index[None, :]
        first = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        second = tl.load(x_ptr + at + half, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + at, (first * c - second * s).to(out_ptr.dtype.element_ty), mask=mask)
        tl.store(out_ptr + at + half, (second * c + first * s).to(out_ptr.dtype.element_ty), mask=mask)


def custom_kernel(data):
    q, k, cos, sin = data
    batch, length = q.shape[:2]
    half = cos.shape[1]
    block = triton.next_power_of_2(half)
    results = []
    for x in (q, k):
        out = torch.empty_like(x)
        rotate_position[(length,)](
            x, cos, sin, out, batch, length, x.shape[2], half, ROWS=ROWS, HALF=block, num_warps=NUM_WARPS
        )
        results.append(out)
    return tuple(results)
