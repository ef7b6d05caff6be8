"""H08: a workspace that is made when it is needed and grows with the shape; parts of rows leave their sums there.

It also keeps how many programs share a row, by shape, and looks at the device once for it.
"""
import torch
import triton
import triton.language as tl

PART = 1024


@triton.jit
def _sums(x_ptr, part_ptr, n, parts, PART: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    cols = part * PART + tl.arange(0, PART)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0).to(tl.float32)
    tl.store(part_ptr + row * parts + part, tl.sum(x * x, axis=0))


@triton.jit
def _scale(x_ptr, w_ptr, part_ptr, o_ptr, n, parts, eps, PART: tl.constexpr, PARTS: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    places = tl.arange(0, PARTS)
    sums = tl.load(part_ptr + row * parts + places, mask=places < parts, other=0.0)
    scale = tl.math.rsqrt(tl.sum(sums, axis=0) / n + eps)
    cols = part * PART + tl.arange(0, PART)
    ok = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=ok, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=ok, other=0.0).to(tl.float32)
    tl.store(o_ptr + row * n + cols, (x * scale * w).to(o_ptr.dtype.element_ty), mask=ok)


_workspace, _plans = {}, {}


def custom_kernel(data):
    x, weight = data
    n = x.shape[-1]
    rows = x.numel() // n
    if (rows, n) not in _plans:
        _plans[rows, n] = triton.cdiv(n, PART)
    parts = _plans[rows, n]
    held = _workspace.get(x.device)
    if held is None or held.numel() < rows * parts:
        held = _workspace[x.device] = torch.empty(2 * rows * parts, dtype=torch.float32, device=x.device)
    out = torch.empty_like(x)
    _sums[(rows, parts)](x, held, n, parts, PART=PART)
    _scale[(rows, parts)](x, weight, held, out, n, parts, 1e-6, PART=PART, PARTS=triton.next_power_of_2(parts))
    return out
