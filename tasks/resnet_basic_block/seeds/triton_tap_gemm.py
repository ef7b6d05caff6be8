import torch
import torch.nn.functional as F
import triton
import triton.language as tl

EPS = 1e-5
BLOCK_N = 64
BLOCK_P = 64
BLOCK_C = 32
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def tap_gemm(
    x_ptr,
    w_ptr,
    shift_ptr,
    r_ptr,
    out_ptr,
    C,
    H,
    W,
    K,
    OH,
    OW,
    STRIDE: tl.constexpr,
    ADD: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    place = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = tl.program_id(2)
    area = OH * OW
    row = place // OW * STRIDE - 1
    col = place % OW * STRIDE - 1
    lane = tl.arange(0, BLOCK_C)
    acc = tl.zeros((BLOCK_N, BLOCK_P), tl.float32)
    for start in range(0, C, BLOCK_C):
        c = start + lane
        planes = x_ptr + (image * C + c) * H * W
        for tap in range(9):
            y = row + tap // 3
            z = col + tap % 3
            inside = (place < area) & (y >= 0) & (y < H) & (z >= 0) & (z < W)
            a = tl.load(
                w_ptr + (tap * K + k[:, None]) * C + c[None, :], mask=(k < K)[:, None] & (c < C)[None, :], other=0.0
            )
            b = tl.load(planes[:, None] + (y * W + z)[None, :], mask=(c < C)[:, None] & inside[None, :], other=0.0)
            acc = tl.dot(a, b, acc)
    acc += tl.load(shift_ptr + k, mask=k < K, other=0.0)[:, None]
    offsets = (image * K + k[:, None]) * area + place[None, :]
    mask = (k < K)[:, None] & (place < area)[None, :]
    if ADD:
        acc += tl.load(r_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, tl.maximum(acc, 0.0).to(tl.float16), mask=mask)


def fold(weight, bn):
    gamma, beta, mean, variance = bn
    scale = gamma * torch.rsqrt(variance + EPS)
    taps = (weight * scale.view(-1, 1, 1, 1)).to(weight.dtype).permute(2, 3, 0, 1).contiguous()
    return taps, beta - mean * scale


def convolve(x, weight, bn, residual, stride):
    n, c, h, w = x.shape
    k = weight.shape[0]
    taps, shift = fold(weight, bn)
    rows, cols = (h - 1) // stride + 1, (w - 1) // stride + 1
    out = torch.empty((n, k, rows, cols), device=x.device, dtype=x.dtype)
    tap_gemm[(triton.cdiv(rows * cols, BLOCK_P), triton.cdiv(k, BLOCK_N), n)](
        x,
        taps,
        shift,
        x if residual is None else residual,
        out,
        c,
        h,
        w,
        k,
        rows,
        cols,
        STRIDE=stride,
        ADD=residual is not None,
        BLOCK_N=BLOCK_N,
        BLOCK_P=BLOCK_P,
        BLOCK_C=BLOCK_C,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out


def custom_kernel(data):
    x, w1, bn1, w2, bn2 = data[:5]
    if len(data) == 5:
        return convolve(convolve(x, w1, bn1, None, 1), w2, bn2, x, 1)
    filters, shift = fold(data[5], data[6])
    shortcut = F.conv2d(x, filters.permute(2, 3, 0, 1), shift.to(x.dtype), stride=2)
    return convolve(convolve(x, w1, bn1, None, 2), w2, bn2, shortcut, 1)
