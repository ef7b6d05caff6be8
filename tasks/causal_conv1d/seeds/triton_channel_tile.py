import torch
import triton
import triton.language as tl

BLOCK_D = 8
BLOCK_L = 256
NUM_WARPS = 4


@triton.jit
def conv_tile(x_ptr, w_ptr, b_ptr, out_ptr, channels, length, BLOCK_D: tl.constexpr, BLOCK_L: tl.constexpr):
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    col = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    base = tl.program_id(2).to(tl.int64) * channels * length
    real = d < channels
    w0 = tl.load(w_ptr + d * 4, mask=real, other=0.0).to(tl.float32)
    w1 = tl.load(w_ptr + d * 4 + 1, mask=real, other=0.0).to(tl.float32)
    w2 = tl.load(w_ptr + d * 4 + 2, mask=real, other=0.0).to(tl.float32)
    w3 = tl.load(w_ptr + d * 4 + 3, mask=real, other=0.0).to(tl.float32)
    bias = tl.load(b_ptr + d, mask=real, other=0.0).to(tl.float32)
    offsets = base + d[:, None].to(tl.int64) * length + col[None, :]
    inside = real[:, None] & (col < length)[None, :]
    x3 = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    x2 = tl.load(x_ptr + offsets - 1, mask=inside & (col >= 1)[None, :], other=0.0).to(tl.float32)
    x1 = tl.load(x_ptr + offsets - 2, mask=inside & (col >= 2)[None, :], other=0.0).to(tl.float32)
    x0 = tl.load(x_ptr + offsets - 3, mask=inside & (col >= 3)[None, :], other=0.0).to(tl.float32)
    z = bias[:, None] + w3[:, None] * x3 + w2[:, None] * x2 + w1[:, None] * x1 + w0[:, None] * x0
    y = z / (1.0 + tl.exp(-z))
    tl.store(out_ptr + offsets, y.to(out_ptr.dtype.element_ty), mask=inside)


def custom_kernel(data):
    x, weight, bias = data
    batch, channels, length = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(length, BLOCK_L), triton.cdiv(channels, BLOCK_D), batch)
    conv_tile[grid](x, weight, bias, out, channels, length, BLOCK_D=BLOCK_D, BLOCK_L=BLOCK_L, num_warps=NUM_WARPS)
    return out
