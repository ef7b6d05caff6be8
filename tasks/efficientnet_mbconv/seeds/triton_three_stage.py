import torch
import triton
import triton.language as tl

EPS = 1e-3
BLOCK_N = 64
BLOCK_P = 128
BLOCK_C = 32
BLOCK_E = 4
BLOCK_AREA = 256
NUM_WARPS = 4
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
def pointwise(
    x_ptr,
    w_ptr,
    bn_ptr,
    r_ptr,
    out_ptr,
    C,
    K,
    area,
    eps,
    SILU: tl.constexpr,
    ADD: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = tl.program_id(2)
    acc = tl.zeros((BLOCK_N, BLOCK_P), tl.float32)
    for start in range(0, C, BLOCK_C):
        c = start + tl.arange(0, BLOCK_C)
        a = tl.load(w_ptr + k[:, None] * C + c[None, :], mask=(k < K)[:, None] & (c < C)[None, :], other=0.0)
        source = x_ptr + (image * C + c[:, None]) * area + p[None, :]
        b = tl.load(source, mask=(c < C)[:, None] & (p < area)[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
    scale, shift = scale_shift(bn_ptr, k, K, eps)
    acc = acc * scale[:, None] + shift[:, None]
    if SILU:
        acc = acc * tl.sigmoid(acc)
    offsets = (image * K + k[:, None]) * area + p[None, :]
    mask = (k < K)[:, None] & (p < area)[None, :]
    if ADD:
        acc += tl.load(r_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, acc.to(tl.float16), mask=mask)


@triton.jit
def depthwise(
    y_ptr,
    w_ptr,
    bn_ptr,
    out_ptr,
    E,
    H,
    W,
    OH,
    OW,
    eps,
    SIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    BLOCK_E: tl.constexpr,
    BLOCK_AREA: tl.constexpr,
):
    place = tl.program_id(0) * BLOCK_AREA + tl.arange(0, BLOCK_AREA)
    e = tl.program_id(1) * BLOCK_E + tl.arange(0, BLOCK_E)
    image = tl.program_id(2)
    planes = (image * E + e) * H * W
    acc = tl.zeros((BLOCK_E, BLOCK_AREA), tl.float32)
    for tap in tl.static_range(SIDE * SIDE):
        y = place // OW * STRIDE + tap // SIDE - SIDE // 2
        z = place % OW * STRIDE + tap % SIDE - SIDE // 2
        inside = (place < OH * OW) & (y >= 0) & (y < H) & (z >= 0) & (z < W)
        mask = (e < E)[:, None] & inside[None, :]
        value = tl.load(y_ptr + planes[:, None] + (y * W + z)[None, :], mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(w_ptr + e * (SIDE * SIDE) + tap, mask=e < E, other=0.0).to(tl.float32)
        acc += value * weight[:, None]
    scale, shift = scale_shift(bn_ptr, e, E, eps)
    acc = acc * scale[:, None] + shift[:, None]
    target = out_ptr + (image * E + e)[:, None] * OH * OW + place[None, :]
    tl.store(target, (acc * tl.sigmoid(acc)).to(tl.float16), mask=(e < E)[:, None] & (place < OH * OW)[None, :])


def project(x, weight, bn, residual, silu):
    n, c, h, w = x.shape
    k = weight.shape[0]
    out = torch.empty((n, k, h, w), device=x.device, dtype=x.dtype)
    pointwise[(triton.cdiv(h * w, BLOCK_P), triton.cdiv(k, BLOCK_N), n)](
        x,
        weight,
        bn,
        x if residual is None else residual,
        out,
        c,
        k,
        h * w,
        EPS,
        SILU=silu,
        ADD=residual is not None,
        BLOCK_N=BLOCK_N,
        BLOCK_P=BLOCK_P,
        BLOCK_C=BLOCK_C,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out


def custom_kernel(data):
    x, w_expand, bn1, w_depth, bn2, w_project, bn3 = data
    n, c, h, w = x.shape
    e, _, side, _ = w_depth.shape
    stride = 1 if w_project.shape[0] == c else 2
    rows, cols = (h - 1) // stride + 1, (w - 1) // stride + 1
    wide = project(x, w_expand, bn1, None, True)
    hidden = torch.empty((n, e, rows, cols), device=x.device, dtype=x.dtype)
    depthwise[(triton.cdiv(rows * cols, BLOCK_AREA), triton.cdiv(e, BLOCK_E), n)](
        wide,
        w_depth,
        bn2,
        hidden,
        e,
        h,
        w,
        rows,
        cols,
        EPS,
        SIDE=side,
        STRIDE=stride,
        BLOCK_E=BLOCK_E,
        BLOCK_AREA=BLOCK_AREA,
        num_warps=NUM_WARPS,
    )
    return project(hidden, w_project, bn3, x if stride == 1 else None, False)
