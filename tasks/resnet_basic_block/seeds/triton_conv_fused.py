import torch
import triton
import triton.language as tl

EPS = 1e-5
BLOCK_M = 128
BLOCK_N = 64
BLOCK_K = 32
NUM_WARPS = 8
NUM_STAGES = 3


@triton.jit
def conv_norm(
    x_ptr,
    w_ptr,
    bn_ptr,
    r_ptr,
    out_ptr,
    pixels,
    C,
    H,
    W,
    K,
    OH,
    OW,
    eps,
    SIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    ADD: tl.constexpr,
    RELU: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    pixel = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    area = OH * OW
    image = pixel // area
    place = pixel % area
    row = place // OW * STRIDE - SIDE // 2
    col = place % OW * STRIDE - SIDE // 2
    depth = C * SIDE * SIDE
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, depth, BLOCK_K):
        q = start + tl.arange(0, BLOCK_K)
        c = q // (SIDE * SIDE)
        tap = q % (SIDE * SIDE)
        y = row[:, None] + (tap // SIDE)[None, :]
        z = col[:, None] + (tap % SIDE)[None, :]
        inside = (pixel < pixels)[:, None] & (q < depth)[None, :] & (y >= 0) & (y < H) & (z >= 0) & (z < W)
        a = tl.load(x_ptr + ((image[:, None] * C + c[None, :]) * H + y) * W + z, mask=inside, other=0.0)
        b = tl.load(w_ptr + k[None, :] * depth + q[:, None], mask=(k < K)[None, :] & (q < depth)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    real = k < K
    scale = tl.load(bn_ptr + k, mask=real, other=0.0) * tl.math.rsqrt(
        tl.load(bn_ptr + 3 * K + k, mask=real, other=1.0) + eps
    )
    shift = tl.load(bn_ptr + K + k, mask=real, other=0.0) - scale * tl.load(bn_ptr + 2 * K + k, mask=real, other=0.0)
    acc = acc * scale[None, :] + shift[None, :]
    offsets = (image[:, None] * K + k[None, :]) * area + place[:, None]
    mask = (pixel < pixels)[:, None] & real[None, :]
    if ADD:
        acc += tl.load(r_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    if RELU:
        acc = tl.maximum(acc, 0.0)
    tl.store(out_ptr + offsets, acc.to(tl.float16), mask=mask)


def convolve(x, weight, bn, residual, stride, relu):
    n, c, h, w = x.shape
    k, _, side, _ = weight.shape
    rows, cols = (h - 1) // stride + 1, (w - 1) // stride + 1
    out = torch.empty((n, k, rows, cols), device=x.device, dtype=x.dtype)
    pixels = n * rows * cols
    conv_norm[(triton.cdiv(pixels, BLOCK_M), triton.cdiv(k, BLOCK_N))](
        x,
        weight,
        bn,
        x if residual is None else residual,
        out,
        pixels,
        c,
        h,
        w,
        k,
        rows,
        cols,
        EPS,
        SIDE=side,
        STRIDE=stride,
        ADD=residual is not None,
        RELU=relu,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out


def custom_kernel(data):
    x, w1, bn1, w2, bn2 = data[:5]
    down = len(data) > 5
    hidden = convolve(x, w1, bn1, None, 2 if down else 1, True)
    shortcut = convolve(x, data[5], data[6], None, 2, False) if down else x
    return convolve(hidden, w2, bn2, shortcut, 1, True)
