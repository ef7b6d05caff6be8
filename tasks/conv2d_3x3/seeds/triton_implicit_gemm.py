import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 64
BLOCK_K = 32
PRECISION = "ieee"
NUM_WARPS = 8
NUM_STAGES = 3


@triton.jit
def implicit_gemm(
    x_ptr,
    w_ptr,
    b_ptr,
    out_ptr,
    pixels,
    C,
    H,
    W,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    pixel = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    area = H * W
    image = pixel // area
    place = pixel % area
    row = place // W
    col = place % W
    depth = C * 9
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, depth, BLOCK_K):
        q = start + tl.arange(0, BLOCK_K)
        channel = q // 9
        tap = q % 9
        y = row[:, None] + (tap // 3 - 1)[None, :]
        z = col[:, None] + (tap % 3 - 1)[None, :]
        inside = (pixel < pixels)[:, None] & (q < depth)[None, :] & (y >= 0) & (y < H) & (z >= 0) & (z < W)
        a = tl.load(x_ptr + ((image[:, None] * C + channel[None, :]) * H + y) * W + z, mask=inside, other=0.0)
        b = tl.load(w_ptr + k[None, :] * depth + q[:, None], mask=(k < K)[None, :] & (q < depth)[:, None], other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    acc += tl.load(b_ptr + k, mask=k < K, other=0.0).to(tl.float32)[None, :]
    target = out_ptr + (image[:, None] * K + k[None, :]) * area + place[:, None]
    tl.store(target, acc.to(out_ptr.dtype.element_ty), mask=(pixel < pixels)[:, None] & (k < K)[None, :])


def custom_kernel(data):
    x, weight, bias = data
    n, c, h, w = x.shape
    k = weight.shape[0]
    out = torch.empty((n, k, h, w), device=x.device, dtype=x.dtype)
    pixels = n * h * w
    grid = (triton.cdiv(pixels, BLOCK_M), triton.cdiv(k, BLOCK_N))
    implicit_gemm[grid](
        x,
        weight,
        bias,
        out,
        pixels,
        c,
        h,
        w,
        k,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
