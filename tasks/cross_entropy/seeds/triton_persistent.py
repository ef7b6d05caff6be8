import torch
import triton
import triton.language as tl

BLOCK = 8192
PROGRAMS = 264
NUM_WARPS = 16
NUM_STAGES = 2
LOG2_E = 1.4426950408889634
LN_2 = 0.6931471805599453


@triton.jit
def cross_entropy_persistent(
    logits_ptr, targets_ptr, go_ptr, losses_ptr, grad_ptr, rows, n, log2_e, ln_2, BLOCK: tl.constexpr
):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        base = tl.cast(row, tl.int64) * n
        peak = -float("inf")
        total = 0.0
        for start in range(0, n, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            x = tl.load(logits_ptr + base + cols, mask=cols < n, other=-float("inf"), eviction_policy="evict_last").to(
                tl.float32
            )
            new_peak = tl.maximum(peak, tl.max(x, axis=0))
            total = total * tl.exp2((peak - new_peak) * log2_e)
            total += tl.sum(tl.exp2((x - new_peak) * log2_e), axis=0)
            peak = new_peak
        target = tl.load(targets_ptr + row)
        log_total = tl.log2(total) * ln_2
        tl.store(losses_ptr + row, log_total + (peak - tl.load(logits_ptr + base + target).to(tl.float32)))
        go = tl.load(go_ptr + row)
        factor = go / total
        for start in range(0, n, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            mask = cols < n
            x = tl.load(logits_ptr + base + cols, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
            g = tl.exp2((x - peak) * log2_e) * factor
            g = tl.where(cols == target, g - go, g)
            tl.store(grad_ptr + base + cols, g.to(grad_ptr.dtype.element_ty), mask=mask)


def custom_kernel(data):
    logits, targets, grad_output = data
    rows, n = logits.shape
    losses = torch.empty_like(grad_output)
    grad = torch.empty_like(logits)
    grid = (min(rows, PROGRAMS),)
    cross_entropy_persistent[grid](
        logits,
        targets,
        grad_output,
        losses,
        grad,
        rows,
        n,
        LOG2_E,
        LN_2,
        BLOCK=BLOCK,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return losses, grad
