"""Sums of the rows of sorted segments: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ELEMENTS = 1 << 24


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    rows: int,
    width: int,
    segments: int,
    kind: str = "uneven",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (x [rows, width] float32, ids [rows] int64 ascending, offsets [segments + 1] int64) on `device`.

    `kind` is uneven (each row picks a segment at random, a tenth of the segments is never picked) or skewed (a quarter
    of the rows belongs to 8 segments, half of the segments is never picked).
    """
    at = {"device": generator.device, "generator": generator}
    share = 0.9 if kind == "uneven" else 0.5
    used = torch.randperm(segments, **at)[: max(2, int(share * segments))]
    pick = torch.randint(0, len(used), (rows,), **at)
    if kind == "skewed":
        pick = torch.where(torch.rand(rows, **at) < 0.25, pick % 8 % len(used), pick)
    ids = used[pick].sort().values
    bounds = torch.arange(segments + 1, device=generator.device)
    offsets = torch.searchsorted(ids, bounds)
    # A mean away from zero keeps the sums of long segments from cancelling to less than their rounding errors.
    x = torch.randn((rows, width), **at)
    x.add_(torch.randn(width, **at).sign_().mul_(torch.rand(width, **at).add_(0.5)))
    return x.to(device), ids.to(device), offsets.to(device)


def reference(data):
    """Return the sums [segments, width] float32, zero for an empty segment."""
    x, ids, offsets = data
    out = torch.zeros((offsets.shape[0] - 1, x.shape[1]), device=x.device, dtype=x.dtype)
    return out.index_add_(0, ids, x)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact sums for the given inputs in float64, [segments, width]."""
    x, ids, offsets = data
    out = torch.zeros((offsets.shape[0] - 1, x.shape[1]), device=x.device, dtype=torch.float64)
    step = max(1, CHUNK_ELEMENTS // x.shape[1])
    for start in range(0, x.shape[0], step):
        out.index_add_(0, ids[start : start + step], x[start : start + step].double())
    return (out,)
