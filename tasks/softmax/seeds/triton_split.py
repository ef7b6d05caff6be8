import torch
import triton
import triton.language as tl

CHUNK = 4096
PARTIAL_WARPS = 8
FINISH_WARPS = 8


@triton.jit
def partial_softmax(x_ptr, peak_ptr, total_ptr, n, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    cols = part * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf")).to(tl.float32)
    peak = tl.maximum(tl.max(x, axis=0), -1.0e30)
    slot = row * tl.num_programs(1) + part
    tl.store(peak_ptr + slot, peak)
    tl.store(total_ptr + slot, tl.sum(tl.exp(x - peak), axis=0))


@triton.jit
def finish_softmax(x_ptr, peak_ptr, total_ptr, out_ptr, n, parts, PARTS: tl.constexpr, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    index = tl.arange(0, PARTS)
    peaks = tl.load(peak_ptr + row * parts + index, mask=index < parts, other=-1.0e30)
    totals = tl.load(total_ptr + row * parts + index, mask=index < parts, other=0.0)
    peak = tl.max(peaks, axis=0)
    inverse = 1.0 / tl.sum(totals * tl.exp(peaks - peak), axis=0)
    cols = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=-float("inf")).to(tl.float32)
    tl.store(out_ptr + row * n + cols, (tl.exp(x - peak) * inverse).to(out_ptr.dtype.element_ty), mask=mask)


def custom_kernel(data):
    (x,) = data
    rows, n = x.shape
    parts = triton.cdiv(n, CHUNK)
    peak = torch.empty((rows, parts), device=x.device, dtype=torch.float32)
    total = torch.empty_like(peak)
    out = torch.empty_like(x)
    grid = (rows, parts)
    partial_softmax[grid](x, peak, total, n, CHUNK=CHUNK, num_warps=PARTIAL_WARPS)
    finish_softmax[grid](
        x, peak, total, out, n, parts, PARTS=triton.next_power_of_2(parts), CHUNK=CHUNK, num_warps=FINISH_WARPS
    )
    return out
