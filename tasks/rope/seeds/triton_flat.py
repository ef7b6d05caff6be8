import torch
import triton
import triton.language as tl

BLOCK = 1024
NUM_WARPS = 4


@triton.jit
def rotate_flat(x_ptr, cos_ptr, sin_ptr, out_ptr, numel, length, heads, width, BLOCK: tl.constexpr):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = index < numel
    half = width // 2
    row = index // width
    col = index - row * width
    upper = col >= half
    partner = tl.where(upper, index - half, index + half)
    table = row // heads % length * half + tl.where(upper, col - half, col)
    x = tl.load(x_ptr + index, mask=mask, other=0.0).to(tl.float32)
    other = tl.load(x_ptr + partner, mask=mask, other=0.0).to(tl.float32)
    c = tl.load(cos_ptr + table, mask=mask, other=0.0)
    s = tl.load(sin_ptr + table, mask=mask, other=0.0)
    y = x * c + tl.where(upper, other, -other) * s
    tl.store(out_ptr + index, y.to(out_ptr.dtype.element_ty), mask=mask)


def custom_kernel(data):
    q, k, cos, sin = data
    results = []
    for x in (q, k):
        _, length, heads, width = x.shape
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), BLOCK),)
        rotate_flat[grid](x, cos, sin, out, x.numel(), length, heads, width, BLOCK=BLOCK, num_warps=NUM_WARPS)
        results.append(out)
    return tuple(results)
