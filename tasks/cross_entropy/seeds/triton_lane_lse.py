import torch
import triton
import triton.language as tl

LSE_BLOCK = 2048
LSE_WARPS = 8
GRAD_BLOCK = 4096
GRAD_WARPS = 4


@triton.jit
def lane_lse(logits_ptr, targets_ptr, lse_ptr, losses_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = logits_ptr + row * n
    peaks = tl.full([BLOCK], -1.0e30, dtype=tl.float32)
    totals = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
        new_peaks = tl.maximum(peaks, x)
        totals = totals * tl.exp(peaks - new_peaks) + tl.exp(x - new_peaks)
        peaks = new_peaks
    peak = tl.max(peaks, axis=0)
    log_total = tl.log(tl.sum(totals * tl.exp(peaks - peak), axis=0))
    x_target = tl.load(x_row + tl.load(targets_ptr + row)).to(tl.float32)
    tl.store(lse_ptr + row, peak + log_total)
    tl.store(losses_ptr + row, log_total - (x_target - peak))


@triton.jit
def grad_tiles(logits_ptr, targets_ptr, go_ptr, lse_ptr, grad_ptr, n, BLOCK: tl.constexpr):
    tiles = tl.cdiv(n, BLOCK)
    row = (tl.program_id(0) // tiles).to(tl.int64)
    cols = (tl.program_id(0) % tiles) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n
    lse = tl.load(lse_ptr + row)
    target = tl.load(targets_ptr + row)
    go = tl.load(go_ptr + row)
    x = tl.load(logits_ptr + row * n + cols, mask=mask, other=0.0).to(tl.float32)
    onehot = tl.where(cols == target, 1.0, 0.0)
    g = (tl.exp(x - lse) - onehot) * go
    tl.store(grad_ptr + row * n + cols, g.to(grad_ptr.dtype.element_ty), mask=mask)


def custom_kernel(data):
    logits, targets, grad_output = data
    rows, n = logits.shape
    lse = torch.empty_like(grad_output)
    losses = torch.empty_like(grad_output)
    grad = torch.empty_like(logits)
    lane_lse[(rows,)](logits, targets, lse, losses, n, BLOCK=LSE_BLOCK, num_warps=LSE_WARPS)
    grid = (rows * triton.cdiv(n, GRAD_BLOCK),)
    grad_tiles[grid](logits, targets, grad_output, lse, grad, n, BLOCK=GRAD_BLOCK, num_warps=GRAD_WARPS)
    return losses, grad
