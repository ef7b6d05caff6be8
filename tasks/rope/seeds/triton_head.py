import torch
import triton
import triton.language as tl

NUM_WARPS = 1


@triton.jit
def rotate_head(x_ptr, cos_ptr, sin_ptr, out_ptr, length, heads, half, HALF: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    position = row // heads % length
    index = tl.arange(0, HALF)
    mask = index < half
    c = tl.load(cos_ptr + position * half + index, mask=mask, other=0.0)
    s = tl.load(sin_ptr + position * half + index, mask=mask, other=0.0)
    at = row * 2 * half + index
    first = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(x_ptr + at + half, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, (first * c - second * s).to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(out_ptr + at + half, (second * c + first * s).to(out_ptr.dtype.element_ty), mask=mask)


def custom_kernel(data):
    q, k, cos, sin = data
    half = cos.shape[1]
    results = []
    for x in (q, k):
        batch, length, heads, _ = x.shape
        out = torch.empty_like(x)
        rotate_head[(batch * length * heads,)](
            x, cos, sin, out, length, heads, half, HALF=triton.next_power_of_2(half), num_warps=NUM_WARPS
        )
        results.append(out)
    return tuple(results)
