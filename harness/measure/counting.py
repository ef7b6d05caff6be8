"""How many elements of an output are wrong, in one pass over memory; the rule is that of `tasks.compare`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tasks.compare import bad_elements

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
BLOCK = 4096


@triton.jit
def _count_bad(out, exact, bounds, count, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    got = tl.load(out + at, mask=inside, other=0.0).to(tl.float64)
    want = tl.load(exact + at, mask=inside, other=0.0)
    rtol, floor = tl.load(bounds), tl.load(bounds + 1)
    size = tl.abs(want)
    # Every comparison with NaN is false, so a NaN that is not expected is never close.
    close = tl.abs(got - want) <= size * rtol + floor
    same = (got == want) | ((got != got) & (want != want))
    right = tl.where(size < float("inf"), close, same)
    bad = tl.sum((inside & ~right).to(tl.int32))
    if bad > 0:
        tl.atomic_add(count, bad.to(tl.int64))


def count_bad(out: torch.Tensor, exact: torch.Tensor, rtol: float, floor: float, bounds: torch.Tensor) -> torch.Tensor:
    """Return how many elements differ by more than rtol |exact| + floor, as a 0-d int64 tensor, without waiting.

    `exact` is float64; `bounds` is [rtol, floor] in float64 on its device. Other dtypes of `out` than those of floating
    point from 16 bits, and other devices than CUDA, are left to `tasks.compare.bad_elements`.
    """
    if not out.is_cuda or out.dtype not in DTYPES or exact.dtype != torch.float64:
        return bad_elements(out, exact, rtol, floor)
    return launch(out.contiguous(), exact.contiguous(), bounds)


def launch(out: torch.Tensor, exact: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    """Count by the Triton kernel; `out` and `exact` are contiguous, of one shape and device."""
    count = torch.zeros((), dtype=torch.int64, device=exact.device)
    if n := exact.numel():
        _count_bad[(triton.cdiv(n, BLOCK),)](out, exact, bounds, count, n, BLOCK=BLOCK)
    return count
