import torch
import triton
import triton.language as tl

EPS = 1e-5
BLOCK_N = 32
BLOCK_P = 128
BLOCK_C = 32
BLOCK_M = 4
BLOCK_AREA = 256
NUM_WARPS = 4
NUM_STAGES = 3


@triton.jit
def scale_shift(bn_ptr, k, real, K, eps):
    gamma = tl.load(bn_ptr + k, mask=real, other=0.0)
    beta = tl.load(bn_ptr + K + k, mask=real, other=0.0)
    mean = tl.load(bn_ptr + 2 * K + k, mask=real, other=0.0)
    scale = gamma * tl.math.rsqrt(tl.load(bn_ptr + 3 * K + k, mask=real, other=1.0) + eps)
    return scale, beta - mean * scale


@triton.jit
def grouped(
    x_ptr,
    w_ptr,
    bn_ptr,
    r_ptr,
    out_ptr,
    C,
    K,
    area,
    groups,
    eps,
    SHUFFLE: tl.constexpr,
    ADD: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    lane = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = tl.program_id(2) // groups
    group = tl.program_id(2) % groups
    depth = C // groups
    width = K // groups
    real = lane < width
    k = group * width + lane
    acc = tl.zeros((BLOCK_N, BLOCK_P), tl.float32)
    for start in range(0, depth, BLOCK_C):
        c = start + tl.arange(0, BLOCK_C)
        a = tl.load(w_ptr + k[:, None] * depth + c[None, :], mask=real[:, None] & (c < depth)[None, :], other=0.0)
        source = x_ptr + (image * C + group * depth + c[:, None]) * area + p[None, :]
        b = tl.load(source, mask=(c < depth)[:, None] & (p < area)[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
    scale, shift = scale_shift(bn_ptr, k, real, K, eps)
    acc = acc * scale[:, None] + shift[:, None]
    mask = real[:, None] & (p < area)[None, :]
    if ADD:
        acc += tl.load(r_ptr + (image * K + k[:, None]) * area + p[None, :], mask=mask, other=0.0).to(tl.float32)
    if SHUFFLE:
        k = lane * groups + group
    offsets = (image * K + k[:, None]) * area + p[None, :]
    tl.store(out_ptr + offsets, tl.maximum(acc, 0.0).to(tl.float16), mask=mask)


@triton.jit
def depthwise(y_ptr, w_ptr, bn_ptr, out_ptr, M, H, W, eps, BLOCK_M: tl.constexpr, BLOCK_AREA: tl.constexpr):
    place = tl.program_id(0) * BLOCK_AREA + tl.arange(0, BLOCK_AREA)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    planes = (tl.program_id(2) * M + m) * H * W
    acc = tl.zeros((BLOCK_M, BLOCK_AREA), tl.float32)
    for tap in tl.static_range(9):
        y = place // W + tap // 3 - 1
        z = place % W + tap % 3 - 1
        inside = (place < H * W) & (y >= 0) & (y < H) & (z >= 0) & (z < W)
        mask = (m < M)[:, None] & inside[None, :]
        value = tl.load(y_ptr + planes[:, None] + (y * W + z)[None, :], mask=mask, other=0.0).to(tl.float32)
        acc += value * tl.load(w_ptr + m * 9 + tap, mask=m < M, other=0.0).to(tl.float32)[:, None]
    scale, shift = scale_shift(bn_ptr, m, m < M, M, eps)
    acc = acc * scale[:, None] + shift[:, None]
    target = out_ptr + planes[:, None] + place[None, :]
    tl.store(target, acc.to(tl.float16), mask=(m < M)[:, None] & (place < H * W)[None, :])


def project(x, weight, bn, residual, groups):
    n, c, h, w = x.shape
    k = weight.shape[0]
    out = torch.empty((n, k, h, w), device=x.device, dtype=x.dtype)
    grouped[(triton.cdiv(h * w, BLOCK_P), triton.cdiv(k // groups, BLOCK_N), n * groups)](
        x,
        weight,
        bn,
        x if residual is None else residual,
        out,
        c,
        k,
        h * w,
        groups,
        EPS,
        SHUFFLE=residual is None,
        ADD=residual is not None,
        BLOCK_N=BLOCK_N,
        BLOCK_P=BLOCK_P,
        BLOCK_C=BLOCK_C,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out


def custom_kernel(data):
    x, w1, bn1, w_depth, bn2, w2, bn3 = data
    n, c, h, w = x.shape
    m = w1.shape[0]
    groups = c // w1.shape[1]
    y = project(x, w1, bn1, None, groups)
    hidden = torch.empty((n, m, h, w), device=x.device, dtype=x.dtype)
    depthwise[(triton.cdiv(h * w, BLOCK_AREA), triton.cdiv(m, BLOCK_M), n)](
        y, w_depth, bn2, hidden, m, h, w, EPS, BLOCK_M=BLOCK_M, BLOCK_AREA=BLOCK_AREA, num_warps=NUM_WARPS
    )
    return project(hidden, w2, bn3, x, groups)
