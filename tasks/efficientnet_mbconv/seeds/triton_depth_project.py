import torch
import torch.nn.functional as F
import triton
import triton.language as tl

EPS = 1e-3
BLOCK_N = 64
BLOCK_P = 64
BLOCK_E = 16
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def scale_shift(bn_ptr, k, K, eps):
    real = k < K
    gamma = tl.load(bn_ptr + k, mask=real, other=0.0)
    beta = tl.load(bn_ptr + K + k, mask=real, other=0.0)
    mean = tl.load(bn_ptr + 2 * K + k, mask=real, other=0.0)
    scale = gamma * tl.math.rsqrt(tl.load(bn_ptr + 3 * K + k, mask=real, other=1.0) + eps)
    return scale, beta - mean * scale


@triton.jit
def depth_project(
    y_ptr,
    w_depth_ptr,
    bn2_ptr,
    w_ptr,
    bn3_ptr,
    x_ptr,
    out_ptr,
    E,
    K,
    H,
    W,
    OH,
    OW,
    eps,
    SIDE: tl.constexpr,
    STRIDE: tl.constexpr,
    ADD: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_E: tl.constexpr,
):
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = tl.program_id(2)
    area = OH * OW
    row = p // OW * STRIDE - SIDE // 2
    col = p % OW * STRIDE - SIDE // 2
    acc = tl.zeros((BLOCK_N, BLOCK_P), tl.float32)
    for start in range(0, E, BLOCK_E):
        e = start + tl.arange(0, BLOCK_E)
        planes = (image * E + e) * H * W
        depth = tl.zeros((BLOCK_E, BLOCK_P), tl.float32)
        for tap in tl.static_range(SIDE * SIDE):
            y = row + tap // SIDE
            z = col + tap % SIDE
            inside = (p < area) & (y >= 0) & (y < H) & (z >= 0) & (z < W)
            mask = (e < E)[:, None] & inside[None, :]
            value = tl.load(y_ptr + planes[:, None] + (y * W + z)[None, :], mask=mask, other=0.0).to(tl.float32)
            weight = tl.load(w_depth_ptr + e * (SIDE * SIDE) + tap, mask=e < E, other=0.0).to(tl.float32)
            depth += value * weight[:, None]
        scale, shift = scale_shift(bn2_ptr, e, E, eps)
        depth = depth * scale[:, None] + shift[:, None]
        depth = depth * tl.sigmoid(depth)
        weight = tl.load(w_ptr + k[:, None] * E + e[None, :], mask=(k < K)[:, None] & (e < E)[None, :], other=0.0)
        acc = tl.dot(weight, depth.to(tl.float16), acc)
    scale, shift = scale_shift(bn3_ptr, k, K, eps)
    acc = acc * scale[:, None] + shift[:, None]
    offsets = (image * K + k[:, None]) * area + p[None, :]
    mask = (k < K)[:, None] & (p < area)[None, :]
    if ADD:
        acc += tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, acc.to(tl.float16), mask=mask)


def custom_kernel(data):
    x, w_expand, bn1, w_depth, bn2, w_project, bn3 = data
    n, c, h, w = x.shape
    e, _, side, _ = w_depth.shape
    k = w_project.shape[0]
    stride = 1 if k == c else 2
    rows, cols = (h - 1) // stride + 1, (w - 1) // stride + 1
    gamma, beta, mean, variance = bn1
    scale = gamma * torch.rsqrt(variance + EPS)
    expand = (w_expand * scale.view(-1, 1, 1, 1)).to(x.dtype)
    y = F.silu(F.conv2d(x, expand, (beta - mean * scale).to(x.dtype)), inplace=True).contiguous()
    out = torch.empty((n, k, rows, cols), device=x.device, dtype=x.dtype)
    depth_project[(triton.cdiv(rows * cols, BLOCK_P), triton.cdiv(k, BLOCK_N), n)](
        y,
        w_depth,
        bn2,
        w_project,
        bn3,
        x,
        out,
        e,
        k,
        h,
        w,
        rows,
        cols,
        EPS,
        SIDE=side,
        STRIDE=stride,
        ADD=stride == 1,
        BLOCK_N=BLOCK_N,
        BLOCK_P=BLOCK_P,
        BLOCK_E=BLOCK_E,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
