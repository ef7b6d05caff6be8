import torch
import torch.nn.functional as F
import triton
import triton.language as tl

BLOCK = 1024
POOL_BLOCK = 512
NUM_WARPS = 4


@triton.jit
def bias_relu(y_ptr, bias_ptr, numel, area, K, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < numel
    bias = tl.load(bias_ptr + index // area % K, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + index, mask=inside, other=0.0).to(tl.float32) + bias
    tl.store(y_ptr + index, tl.maximum(y, 0.0).to(tl.float16), mask=inside)


@triton.jit
def bias_relu_pool(y_ptr, bias_ptr, out_ptr, numel, H, W, K, OH, OW, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < numel
    plane = index // (OH * OW)
    corner = (plane * H + index // OW % OH * 2) * W + index % OW * 2
    pair = tl.arange(0, 2)
    mask = inside[:, None] & (pair >= 0)[None, :]
    upper = tl.load(y_ptr + corner[:, None] + pair[None, :], mask=mask, other=0.0)
    lower = tl.load(y_ptr + corner[:, None] + W + pair[None, :], mask=mask, other=0.0)
    best = tl.max(tl.maximum(upper.to(tl.float32), lower.to(tl.float32)), 1)
    best += tl.load(bias_ptr + plane % K, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + index, tl.maximum(best, 0.0).to(tl.float16), mask=inside)


def custom_kernel(data):
    x, w1, b1, w2, b2 = data
    y = F.conv2d(x, w1, padding=1).contiguous()
    n, k, h, w = y.shape
    numel = y.numel()
    bias_relu[(triton.cdiv(numel, BLOCK),)](y, b1, numel, h * w, k, BLOCK=BLOCK, num_warps=NUM_WARPS)
    y = F.conv2d(y, w2, padding=1).contiguous()
    out = torch.empty((n, k, h // 2, w // 2), device=x.device, dtype=x.dtype)
    numel = out.numel()
    grid = (triton.cdiv(numel, POOL_BLOCK),)
    bias_relu_pool[grid](y, b2, out, numel, h, w, k, h // 2, w // 2, BLOCK=POOL_BLOCK, num_warps=NUM_WARPS)
    return out
