import torch
import triton
import triton.language as tl

CHUNK = 8192
BLOCK = 2048
PARTIAL_WARPS = 8
COMBINE_WARPS = 1
GRAD_WARPS = 8


@triton.jit
def partial_lse(logits_ptr, peak_ptr, total_ptr, n, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    cols = part * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(logits_ptr + row * n + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
    peak = tl.max(x, axis=0)
    slot = row * tl.num_programs(1) + part
    tl.store(peak_ptr + slot, peak)
    tl.store(total_ptr + slot, tl.sum(tl.exp(x - peak), axis=0))


@triton.jit
def combine_lse(logits_ptr, targets_ptr, peak_ptr, total_ptr, lse_ptr, losses_ptr, n, parts, PARTS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    index = tl.arange(0, PARTS)
    mask = index < parts
    peaks = tl.load(peak_ptr + row * parts + index, mask=mask, other=-float("inf"))
    totals = tl.load(total_ptr + row * parts + index, mask=mask, other=0.0)
    peak = tl.max(peaks, axis=0)
    log_total = tl.log(tl.sum(totals * tl.exp(peaks - peak), axis=0))
    x_target = tl.load(logits_ptr + row * n + tl.load(targets_ptr + row)).to(tl.float32)
    tl.store(lse_ptr + row, log_total + peak)
    tl.store(losses_ptr + row, log_total + (peak - x_target))


@triton.jit
def softmax_grad(logits_ptr, targets_ptr, go_ptr, lse_ptr, grad_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(logits_ptr + row * n + cols, mask=mask, other=0.0).to(tl.float32)
    p = tl.exp(x - tl.load(lse_ptr + row))
    p = tl.where(cols == tl.load(targets_ptr + row), p - 1.0, p)
    g = p * tl.load(go_ptr + row)
    tl.store(grad_ptr + row * n + cols, g.to(grad_ptr.dtype.element_ty), mask=mask)


def custom_kernel(data):
    logits, targets, grad_output = data
    rows, n = logits.shape
    parts = triton.cdiv(n, CHUNK)
    peak = torch.empty((rows, parts), device=logits.device, dtype=torch.float32)
    total = torch.empty_like(peak)
    lse = torch.empty_like(grad_output)
    losses = torch.empty_like(grad_output)
    grad = torch.empty_like(logits)
    partial_lse[(rows, parts)](logits, peak, total, n, CHUNK=CHUNK, num_warps=PARTIAL_WARPS)
    combine_lse[(rows,)](
        logits,
        targets,
        peak,
        total,
        lse,
        losses,
        n,
        parts,
        PARTS=triton.next_power_of_2(parts),
        num_warps=COMBINE_WARPS,
    )
    grid = (rows, triton.cdiv(n, BLOCK))
    softmax_grad[grid](logits, targets, grad_output, lse, grad, n, BLOCK=BLOCK, num_warps=GRAD_WARPS)
    return losses, grad
