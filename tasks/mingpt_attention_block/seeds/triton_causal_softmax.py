import torch
import triton
import triton.language as tl

BLOCK = 1024
NUM_WARPS = 4


@triton.jit
def softmax_in_place(score_ptr, length, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    base = score_ptr + (tl.program_id(1).to(tl.int64) * length + row) * length
    lane = tl.arange(0, BLOCK)
    peak = float("-inf")
    total = 0.0
    for start in range(0, row + 1, BLOCK):
        cols = start + lane
        scores = tl.load(base + cols, mask=cols <= row, other=float("-inf")) * scale
        new_peak = tl.maximum(peak, tl.max(scores, axis=0))
        total = total * tl.exp(peak - new_peak) + tl.sum(tl.exp(scores - new_peak), axis=0)
        peak = new_peak
    for start in range(0, length, BLOCK):
        cols = start + lane
        scores = tl.load(base + cols, mask=cols <= row, other=float("-inf")) * scale
        tl.store(base + cols, tl.exp(scores - peak) / total, mask=cols < length)


def custom_kernel(data):
    x, w_qkv, b_qkv, w_proj, b_proj = data
    batch, length, width = x.shape
    heads, dim = b_qkv.shape[1:]
    qkv = torch.nn.functional.linear(x, w_qkv.view(-1, width), b_qkv.view(-1))
    qkv = qkv.view(batch, length, 3, heads, dim).permute(2, 0, 3, 1, 4).reshape(3, batch * heads, length, dim)
    scores = torch.bmm(qkv[0], qkv[1].transpose(1, 2))
    softmax_in_place[(length, batch * heads)](scores, length, dim**-0.5, BLOCK=BLOCK, num_warps=NUM_WARPS)
    y = torch.bmm(scores, qkv[2]).view(batch, heads, length, dim).transpose(1, 2).reshape(x.shape)
    return torch.nn.functional.linear(y, w_proj, b_proj)
