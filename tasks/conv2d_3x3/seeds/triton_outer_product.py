import torch
import triton
import triton.language as tl

BLOCK_P = 128
BLOCK_N = 16
NUM_WARPS = 4


@triton.jit
def outer_product(x_ptr, w_ptr, b_ptr, out_ptr, C, H, W, K, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
    place = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = tl.program_id(2)
    area = H * W
    row = place // W
    col = place % W
    acc = tl.zeros((BLOCK_N, BLOCK_P), tl.float32)
    acc += tl.load(b_ptr + k, mask=k < K, other=0.0).to(tl.float32)[:, None]
    for c in range(C):
        plane = x_ptr + (image * C + c) * area
        for tap in tl.static_range(9):
            y = row + (tap // 3 - 1)
            z = col + (tap % 3 - 1)
            inside = (y >= 0) & (y < H) & (z >= 0) & (z < W)
            x = tl.load(plane + y * W + z, mask=inside, other=0.0).to(tl.float32)
            w = tl.load(w_ptr + (k * C + c) * 9 + tap, mask=k < K, other=0.0).to(tl.float32)
            acc += w[:, None] * x[None, :]
    target = out_ptr + (image * K + k[:, None]) * area + place[None, :]
    tl.store(target, acc.to(out_ptr.dtype.element_ty), mask=(k < K)[:, None] & (place < area)[None, :])


def custom_kernel(data):
    x, weight, bias = data
    n, c, h, w = x.shape
    k = weight.shape[0]
    out = torch.empty((n, k, h, w), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(h * w, BLOCK_P), triton.cdiv(k, BLOCK_N), n)
    outer_product[grid](x, weight, bias, out, c, h, w, k, BLOCK_P=BLOCK_P, BLOCK_N=BLOCK_N, num_warps=NUM_WARPS)
    return out
