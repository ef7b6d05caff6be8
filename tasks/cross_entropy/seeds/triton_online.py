import torch
import triton
import triton.language as tl

BLOCK = 4096
NUM_WARPS = 8
NUM_STAGES = 2


@triton.jit
def cross_entropy_online(logits_ptr, targets_ptr, go_ptr, losses_ptr, grad_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = logits_ptr + row * n
    grad_row = grad_ptr + row * n
    target = tl.load(targets_ptr + row)
    peak = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
        new_peak = tl.maximum(peak, tl.max(x, axis=0))
        total = total * tl.exp(peak - new_peak) + tl.sum(tl.exp(x - new_peak), axis=0)
        peak = new_peak
    x_target = tl.load(x_row + target).to(tl.float32)
    tl.store(losses_ptr + row, tl.log(total) + (peak - x_target))
    go = tl.load(go_ptr + row)
    inverse = 1.0 / total
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n
        x = tl.load(x_row + cols, mask=mask, other=-float("inf")).to(tl.float32)
        p = tl.exp(x - peak) * inverse
        g = tl.where(cols == target, p - 1.0, p) * go
        tl.store(grad_row + cols, g.to(grad_ptr.dtype.element_ty), mask=mask)


def custom_kernel(data):
    logits, targets, grad_output = data
    rows, n = logits.shape
    losses = torch.empty_like(grad_output)
    grad = torch.empty_like(logits)
    cross_entropy_online[(rows,)](
        logits, targets, grad_output, losses, grad, n, BLOCK=BLOCK, num_warps=NUM_WARPS, num_stages=NUM_STAGES
    )
    return losses, grad
