import torch
import triton
import triton.language as tl

BLOCK_K = 32
BLOCK_T = 64
BLOCK_C = 16
PRECISION = "tf32x3"
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def multiply_and_gather(
    u_ptr,
    v_ptr,
    b_ptr,
    out_ptr,
    C,
    K,
    tiles,
    tall,
    wide,
    H,
    W,
    BLOCK_K: tl.constexpr,
    BLOCK_T: tl.constexpr,
    BLOCK_C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    tile = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    lane = tl.arange(0, BLOCK_C)
    upper_left = tl.zeros((BLOCK_K, BLOCK_T), tl.float32)
    upper_right = tl.zeros((BLOCK_K, BLOCK_T), tl.float32)
    lower_left = tl.zeros((BLOCK_K, BLOCK_T), tl.float32)
    lower_right = tl.zeros((BLOCK_K, BLOCK_T), tl.float32)
    for place in range(16):
        product = tl.zeros((BLOCK_K, BLOCK_T), tl.float32)
        for start in range(0, C, BLOCK_C):
            c = start + lane
            u_at = u_ptr + (place * K + k[:, None]) * C + c[None, :]
            v_at = v_ptr + (place * C + c[:, None]) * tiles + tile[None, :]
            u = tl.load(u_at, mask=(k < K)[:, None] & (c < C)[None, :], other=0.0)
            v = tl.load(v_at, mask=(c < C)[:, None] & (tile < tiles)[None, :], other=0.0)
            product = tl.dot(u, v, product, input_precision=PRECISION)
        row = place // 4
        col = place % 4
        upper = tl.where(row < 3, 1.0, 0.0)
        lower = tl.where(row == 0, 0.0, tl.where(row == 1, 1.0, -1.0))
        left = tl.where(col < 3, 1.0, 0.0)
        right = tl.where(col == 0, 0.0, tl.where(col == 1, 1.0, -1.0))
        upper_left += product * (upper * left)
        upper_right += product * (upper * right)
        lower_left += product * (lower * left)
        lower_right += product * (lower * right)
    bias = tl.load(b_ptr + k, mask=k < K, other=0.0).to(tl.float32)[:, None]
    y = tile // wide % tall * 2
    x = tile % wide * 2
    at = out_ptr + ((tile // (tall * wide) * K)[None, :] + k[:, None]) * H * W + (y * W + x)[None, :]
    real = (k < K)[:, None] & (tile < tiles)[None, :]
    below = real & (y + 1 < H)[None, :]
    beside = (x + 1 < W)[None, :]
    kind = out_ptr.dtype.element_ty
    tl.store(at, (upper_left + bias).to(kind), mask=real)
    tl.store(at + 1, (upper_right + bias).to(kind), mask=real & beside)
    tl.store(at + W, (lower_left + bias).to(kind), mask=below)
    tl.store(at + W + 1, (lower_right + bias).to(kind), mask=below & beside)


def spread(taps, dim):
    a, b, c = taps.unbind(dim)
    outer, inner = (a + c) * 0.5, b * 0.5
    return torch.stack((a, outer + inner, outer - inner, c), 0)


def mix(pixels, dim):
    a, b, c, d = pixels.unbind(dim)
    return torch.stack((a - c, b + c, c - b, b - d), 0)


def custom_kernel(data):
    x, weight, bias = data
    n, c, h, w = x.shape
    k = weight.shape[0]
    tall, wide = (h + 1) // 2, (w + 1) // 2
    padded = torch.nn.functional.pad(x, (1, 2 * wide - w + 1, 1, 2 * tall - h + 1)).float()
    patches = padded.unfold(2, 4, 2).unfold(3, 4, 2)
    v = mix(mix(patches, 5), 5).permute(0, 1, 3, 2, 4, 5).contiguous()
    u = spread(spread(weight.float(), 3), 3)
    out = torch.empty((n, k, h, w), device=x.device, dtype=x.dtype)
    tiles = n * tall * wide
    multiply_and_gather[(triton.cdiv(tiles, BLOCK_T), triton.cdiv(k, BLOCK_K))](
        u,
        v,
        bias,
        out,
        c,
        k,
        tiles,
        tall,
        wide,
        h,
        w,
        BLOCK_K=BLOCK_K,
        BLOCK_T=BLOCK_T,
        BLOCK_C=BLOCK_C,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
