import torch
import triton
import triton.language as tl

CHUNK = 4096
CHUNK_WARPS = 8
CARRY_WARPS = 1


@triton.jit
def chunk_sums(x_ptr, sums_ptr, n, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    cols = part * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    tl.store(sums_ptr + row * tl.num_programs(1) + part, tl.sum(x, axis=0))


@triton.jit
def chunk_carries(sums_ptr, carry_ptr, parts, PARTS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.arange(0, PARTS)
    sums = tl.load(sums_ptr + row * parts + part, mask=part < parts, other=0.0)
    totals = tl.cumsum(sums, axis=0)
    tl.store(carry_ptr + row * (parts + 1) + part + 1, totals, mask=part < parts)
    tl.store(carry_ptr + row * (parts + 1), 0.0)


@triton.jit
def scan_chunks(x_ptr, carry_ptr, out_ptr, n, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    cols = part * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    carry = tl.load(carry_ptr + row * (tl.num_programs(1) + 1) + part)
    tl.store(out_ptr + row * n + cols, tl.cumsum(x, axis=0) + carry, mask=cols < n)


def custom_kernel(data):
    (x,) = data
    rows, n = x.shape
    parts = triton.cdiv(n, CHUNK)
    sums = torch.empty((rows, parts), device=x.device, dtype=x.dtype)
    carry = torch.empty((rows, parts + 1), device=x.device, dtype=x.dtype)
    out = torch.empty_like(x)
    chunk_sums[(rows, parts)](x, sums, n, CHUNK=CHUNK, num_warps=CHUNK_WARPS)
    chunk_carries[(rows,)](sums, carry, parts, PARTS=triton.next_power_of_2(parts), num_warps=CARRY_WARPS)
    scan_chunks[(rows, parts)](x, carry, out, n, CHUNK=CHUNK, num_warps=CHUNK_WARPS)
    return out
