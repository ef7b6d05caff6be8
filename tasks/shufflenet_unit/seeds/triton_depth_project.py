import torch
import torch.nn.functional as F
import triton
import triton.language as tl

EPS = 1e-5
BLOCK_N = 64
BLOCK_P = 64
BLOCK_M = 16
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def scale_shift(bn_ptr, k, real, K, eps):
    gamma = tl.load(bn_ptr + k, mask=real, other=0.0)
    beta = tl.load(bn_ptr + K + k, mask=real, other=0.0)
    mean = tl.load(bn_ptr + 2 * K + k, mask=real, other=0.0)
    scale = gamma * tl.math.rsqrt(tl.load(bn_ptr + 3 * K + k, mask=real, other=1.0) + eps)
    return scale, beta - mean * scale


@triton.jit
def depth_project(
    y_ptr,
    bn1_ptr,
    w_depth_ptr,
    bn2_ptr,
    w_ptr,
    bn3_ptr,
    x_ptr,
    out_ptr,
    M,
    C,
    H,
    W,
    groups,
    eps,
    BLOCK_N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_M: tl.constexpr,
):
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    lane = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = tl.program_id(2) // groups
    group = tl.program_id(2) % groups
    area = H * W
    row = p // W - 1
    col = p % W - 1
    width = C // groups
    depth = M // groups
    c = group * width + lane
    acc = tl.zeros((BLOCK_N, BLOCK_P), tl.float32)
    for start in range(0, depth, BLOCK_M):
        q = start + tl.arange(0, BLOCK_M)
        real = q < depth
        m = group * depth + q
        source = m % groups * depth + m // groups
        before, offset = scale_shift(bn1_ptr, source, real, M, eps)
        taps = tl.zeros((BLOCK_M, BLOCK_P), tl.float32)
        for tap in tl.static_range(9):
            y = row + tap // 3
            z = col + tap % 3
            inside = (p < area) & (y >= 0) & (y < H) & (z >= 0) & (z < W)
            mask = real[:, None] & inside[None, :]
            address = y_ptr + (image * M + source)[:, None] * area + (y * W + z)[None, :]
            value = tl.load(address, mask=mask, other=0.0).to(tl.float32)
            value = tl.where(mask, tl.maximum(value * before[:, None] + offset[:, None], 0.0), 0.0)
            taps += value * tl.load(w_depth_ptr + m * 9 + tap, mask=real, other=0.0).to(tl.float32)[:, None]
        scale, shift = scale_shift(bn2_ptr, m, real, M, eps)
        taps = taps * scale[:, None] + shift[:, None]
        address = w_ptr + c[:, None] * depth + q[None, :]
        weight = tl.load(address, mask=(lane < width)[:, None] & real[None, :], other=0.0)
        acc = tl.dot(weight, taps.to(tl.float16), acc)
    scale, shift = scale_shift(bn3_ptr, c, lane < width, C, eps)
    offsets = (image * C + c[:, None]) * area + p[None, :]
    mask = (lane < width)[:, None] & (p < area)[None, :]
    acc = acc * scale[:, None] + shift[:, None] + tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, tl.maximum(acc, 0.0).to(tl.float16), mask=mask)


def custom_kernel(data):
    x, w1, bn1, w_depth, bn2, w2, bn3 = data
    n, c, h, w = x.shape
    m = w1.shape[0]
    groups = c // w1.shape[1]
    y = F.conv2d(x, w1, groups=groups).contiguous()
    out = torch.empty((n, c, h, w), device=x.device, dtype=x.dtype)
    depth_project[(triton.cdiv(h * w, BLOCK_P), triton.cdiv(c // groups, BLOCK_N), n * groups)](
        y,
        bn1,
        w_depth,
        bn2,
        w2,
        bn3,
        x,
        out,
        m,
        c,
        h,
        w,
        groups,
        EPS,
        BLOCK_N=BLOCK_N,
        BLOCK_P=BLOCK_P,
        BLOCK_M=BLOCK_M,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
