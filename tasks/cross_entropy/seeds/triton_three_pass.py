import torch
import triton
import triton.language as tl

BLOCK = 2048
NUM_WARPS = 4


@triton.jit
def cross_entropy_three_pass(logits_ptr, targets_ptr, go_ptr, losses_ptr, grad_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = logits_ptr + row * n
    peaks = tl.full([BLOCK], -float("inf"), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
        peaks = tl.maximum(peaks, x)
    peak = tl.max(peaks, axis=0)
    totals = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
        totals += tl.exp(x - peak)
    total = tl.sum(totals, axis=0)
    target = tl.load(targets_ptr + row)
    x_target = tl.load(x_row + target).to(tl.float32)
    tl.store(losses_ptr + row, tl.log(total) + peak - x_target)
    go = tl.load(go_ptr + row)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n
        x = tl.load(x_row + cols, mask=mask, other=-float("inf")).to(tl.float32)
        p = tl.exp(x - peak) / total
        g = (p - (cols == target).to(tl.float32)) * go
        tl.store(grad_ptr + row * n + cols, g.to(grad_ptr.dtype.element_ty), mask=mask)


def custom_kernel(data):
    logits, targets, grad_output = data
    rows, n = logits.shape
    losses = torch.empty_like(grad_output)
    grad = torch.empty_like(logits)
    cross_entropy_three_pass[(rows,)](logits, targets, grad_output, losses, grad, n, BLOCK=BLOCK, num_warps=NUM_WARPS)
    return losses, grad
