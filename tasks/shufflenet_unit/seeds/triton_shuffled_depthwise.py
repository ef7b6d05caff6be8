import torch
import triton
import triton.language as tl

EPS = 1e-5
BLOCK = 256
NUM_WARPS = 4


@triton.jit
def scale_shift(bn_ptr, k, K, eps):
    scale = tl.load(bn_ptr + k) * tl.math.rsqrt(tl.load(bn_ptr + 3 * K + k) + eps)
    return scale, tl.load(bn_ptr + K + k) - tl.load(bn_ptr + 2 * K + k) * scale


@triton.jit
def shuffled_depthwise(y_ptr, w_ptr, bn1_ptr, bn2_ptr, out_ptr, M, H, W, groups, eps, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = plane % M
    source = m % groups * (M // groups) + m // groups
    row = place // W - 1
    col = place % W - 1
    scale, shift = scale_shift(bn1_ptr, source, M, eps)
    base = y_ptr + (plane - m + source) * H * W
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            y = row + i
            z = col + j
            inside = (place < H * W) & (y >= 0) & (y < H) & (z >= 0) & (z < W)
            value = tl.load(base + y * W + z, mask=inside, other=0.0).to(tl.float32)
            value = tl.where(inside, tl.maximum(value * scale + shift, 0.0), 0.0)
            acc += value * tl.load(w_ptr + m * 9 + i * 3 + j).to(tl.float32)
    scale, shift = scale_shift(bn2_ptr, m, M, eps)
    tl.store(out_ptr + plane * H * W + place, (acc * scale + shift).to(tl.float16), mask=place < H * W)


@triton.jit
def finish(y_ptr, bn_ptr, x_ptr, out_ptr, C, area, eps, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    scale, shift = scale_shift(bn_ptr, plane % C, C, eps)
    offsets = plane * area + place
    y = tl.load(y_ptr + offsets, mask=place < area, other=0.0).to(tl.float32) * scale + shift
    y += tl.load(x_ptr + offsets, mask=place < area, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, tl.maximum(y, 0.0).to(tl.float16), mask=place < area)


def custom_kernel(data):
    x, w1, bn1, w_depth, bn2, w2, bn3 = data
    n, c, h, w = x.shape
    m = w1.shape[0]
    groups = c // w1.shape[1]
    blocks = triton.cdiv(h * w, BLOCK)
    y = torch.matmul(w1.view(groups, m // groups, -1), x.view(n, groups, -1, h * w))
    hidden = torch.empty((n, groups, m // groups, h * w), device=x.device, dtype=x.dtype)
    shuffled_depthwise[(n * m, blocks)](
        y, w_depth, bn1, bn2, hidden, m, h, w, groups, EPS, BLOCK=BLOCK, num_warps=NUM_WARPS
    )
    y = torch.matmul(w2.view(groups, c // groups, -1), hidden)
    out = torch.empty((n, c, h, w), device=x.device, dtype=x.dtype)
    finish[(n * c, blocks)](y, bn3, x, out, c, h * w, EPS, BLOCK=BLOCK, num_warps=NUM_WARPS)
    return out
