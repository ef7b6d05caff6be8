import torch
import triton
import triton.language as tl

EPS = 1e-5
BLOCK_M = 128
BLOCK_N = 64
BLOCK_C = 64
NUM_WARPS = 8
NUM_STAGES = 3


@triton.jit
def scale_shift(bn_ptr, k, K, eps):
    real = k < K
    gamma = tl.load(bn_ptr + k, mask=real, other=0.0)
    beta = tl.load(bn_ptr + K + k, mask=real, other=0.0)
    mean = tl.load(bn_ptr + 2 * K + k, mask=real, other=0.0)
    scale = gamma * tl.math.rsqrt(tl.load(bn_ptr + 3 * K + k, mask=real, other=1.0) + eps)
    return scale, beta - mean * scale


@triton.jit
def first_half(
    x_ptr,
    w_ptr,
    bn_ptr,
    out_ptr,
    pixels,
    C,
    H,
    W,
    K,
    OH,
    OW,
    eps,
    STRIDE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    pixel = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = pixel // (OH * OW)
    row = pixel // OW % OH * STRIDE - 1
    col = pixel % OW * STRIDE - 1
    lane = tl.arange(0, BLOCK_C)
    blocks = tl.cdiv(C, BLOCK_C)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(9 * blocks):
        tap = step // blocks
        c = step % blocks * BLOCK_C + lane
        y = row + tap // 3
        z = col + tap % 3
        inside = (pixel < pixels) & (y >= 0) & (y < H) & (z >= 0) & (z < W)
        source = x_ptr + ((image * H + y) * W + z)[:, None] * C + c[None, :]
        a = tl.load(source, mask=inside[:, None] & (c < C)[None, :], other=0.0)
        b = tl.load(
            w_ptr + (tap * C + c[:, None]) * K + k[None, :], mask=(c < C)[:, None] & (k < K)[None, :], other=0.0
        )
        acc = tl.dot(a, b, acc)
    scale, shift = scale_shift(bn_ptr, k, K, eps)
    y = tl.maximum(acc * scale[None, :] + shift[None, :], 0.0)
    mask = (pixel < pixels)[:, None] & (k < K)[None, :]
    tl.store(out_ptr + pixel[:, None] * K + k[None, :], y.to(tl.float16), mask=mask)


@triton.jit
def second_half(
    h_ptr,
    w_ptr,
    bn_ptr,
    x_ptr,
    wd_ptr,
    bnd_ptr,
    out_ptr,
    pixels,
    C,
    H,
    W,
    K,
    OH,
    OW,
    eps,
    DOWN: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    pixel = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    area = OH * OW
    image = pixel // area
    row = pixel // OW % OH
    col = pixel % OW
    lane = tl.arange(0, BLOCK_C)
    blocks = tl.cdiv(K, BLOCK_C)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for step in range(9 * blocks):
        tap = step // blocks
        c = step % blocks * BLOCK_C + lane
        dy = tap // 3 - 1
        dx = tap % 3 - 1
        inside = (pixel < pixels) & (row + dy >= 0) & (row + dy < OH) & (col + dx >= 0) & (col + dx < OW)
        source = h_ptr + (pixel + dy * OW + dx)[:, None] * K + c[None, :]
        a = tl.load(source, mask=inside[:, None] & (c < K)[None, :], other=0.0)
        b = tl.load(
            w_ptr + (tap * K + c[:, None]) * K + k[None, :], mask=(c < K)[:, None] & (k < K)[None, :], other=0.0
        )
        acc = tl.dot(a, b, acc)
    scale, shift = scale_shift(bn_ptr, k, K, eps)
    acc = acc * scale[None, :] + shift[None, :]
    mask = (pixel < pixels)[:, None] & (k < K)[None, :]
    if DOWN:
        origin = (image * H + row * 2) * W + col * 2
        other = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, C, BLOCK_C):
            c = start + lane
            a = tl.load(
                x_ptr + origin[:, None] * C + c[None, :], mask=(pixel < pixels)[:, None] & (c < C)[None, :], other=0.0
            )
            b = tl.load(wd_ptr + k[None, :] * C + c[:, None], mask=(c < C)[:, None] & (k < K)[None, :], other=0.0)
            other = tl.dot(a, b, other)
        scale, shift = scale_shift(bnd_ptr, k, K, eps)
        acc += other * scale[None, :] + shift[None, :]
    else:
        acc += tl.load(x_ptr + pixel[:, None] * K + k[None, :], mask=mask, other=0.0).to(tl.float32)
    target = out_ptr + (image * K)[:, None] * area + k[None, :] * area + (pixel % area)[:, None]
    tl.store(target, tl.maximum(acc, 0.0).to(tl.float16), mask=mask)


def custom_kernel(data):
    x, w1, bn1, w2, bn2 = data[:5]
    down = len(data) > 5
    stride = 2 if down else 1
    n, c, h, w = x.shape
    k = w1.shape[0]
    rows, cols = (h - 1) // stride + 1, (w - 1) // stride + 1
    pixels = n * rows * cols
    x_last = x.permute(0, 2, 3, 1).contiguous()
    hidden = torch.empty((n, rows, cols, k), device=x.device, dtype=x.dtype)
    out = torch.empty((n, k, rows, cols), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(pixels, BLOCK_M), triton.cdiv(k, BLOCK_N))
    blocks = {"BLOCK_M": BLOCK_M, "BLOCK_N": BLOCK_N, "BLOCK_C": BLOCK_C}
    launch = {"num_warps": NUM_WARPS, "num_stages": NUM_STAGES}
    taps = w1.permute(2, 3, 1, 0).contiguous()
    first_half[grid](x_last, taps, bn1, hidden, pixels, c, h, w, k, rows, cols, EPS, STRIDE=stride, **blocks, **launch)
    taps = w2.permute(2, 3, 1, 0).contiguous()
    w_down, bn_down = (data[5], data[6]) if down else (w2, bn2)
    second_half[grid](
        hidden,
        taps,
        bn2,
        x_last,
        w_down,
        bn_down,
        out,
        pixels,
        c,
        h,
        w,
        k,
        rows,
        cols,
        EPS,
        DOWN=down,
        **blocks,
        **launch,
    )
    return out
