import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64
BLOCK_C = 32
PRECISION = "ieee"
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def tap_loop(
    x_ptr,
    w_ptr,
    b_ptr,
    out_ptr,
    C,
    H,
    W,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    place = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image = tl.program_id(2)
    area = H * W
    row = place // W
    col = place % W
    lane = tl.arange(0, BLOCK_C)
    acc = tl.zeros((BLOCK_N, BLOCK_M), tl.float32)
    for tap in range(9):
        y = row + tap // 3 - 1
        z = col + tap % 3 - 1
        inside = (place < area) & (y >= 0) & (y < H) & (z >= 0) & (z < W)
        x_tap = x_ptr + image * C * area + y * W + z
        w_tap = w_ptr + tap * K * C
        for start in range(0, C, BLOCK_C):
            c = start + lane
            a = tl.load(w_tap + k[:, None] * C + c[None, :], mask=(k < K)[:, None] & (c < C)[None, :], other=0.0)
            b = tl.load(x_tap[None, :] + c[:, None] * area, mask=(c < C)[:, None] & inside[None, :], other=0.0)
            acc = tl.dot(a, b, acc, input_precision=PRECISION)
    acc += tl.load(b_ptr + k, mask=k < K, other=0.0).to(tl.float32)[:, None]
    target = out_ptr + (image * K + k[:, None]) * area + place[None, :]
    tl.store(target, acc.to(out_ptr.dtype.element_ty), mask=(k < K)[:, None] & (place < area)[None, :])


def custom_kernel(data):
    x, weight, bias = data
    n, c, h, w = x.shape
    k = weight.shape[0]
    taps = weight.permute(2, 3, 0, 1).contiguous()
    out = torch.empty((n, k, h, w), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(h * w, BLOCK_M), triton.cdiv(k, BLOCK_N), n)
    tap_loop[grid](
        x,
        taps,
        bias,
        out,
        c,
        h,
        w,
        k,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_C=BLOCK_C,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
