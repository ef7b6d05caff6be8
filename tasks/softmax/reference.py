"""Softmax over the last dimension: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ELEMENTS = 1 << 24
KEPT_SHARE = 0.3


def make_inputs(
    generator: torch.Generator, device: torch.device | str, *, rows: int, n: int, dtype: str, kind: str = "normal"
) -> tuple[torch.Tensor]:
    """Return (x [rows, n],) on the generator's device, moved to `device`.

    `kind` is normal (row scales from 0.5 to 4, rows shifted by up to 50), large (scale 40, rows shifted by up to 20000,
    so that exp overflows without the row maximum and a rounded log-sum-exp is far off), ties (small whole numbers) or
    masked (70% of the entries are -inf, the rest as in normal).
    """
    at = {"device": generator.device, "generator": generator}
    shift = torch.rand((rows, 1), **at).mul_(2.0).sub_(1.0).mul_(2e4 if kind == "large" else 50.0)
    if kind == "ties":
        x = torch.randint(-3, 4, (rows, n), **at).float()
    else:
        scale = 40.0 if kind == "large" else torch.rand((rows, 1), **at).mul_(3.5).add_(0.5)
        x = torch.randn((rows, n), **at).mul_(scale).add_(shift)
    if kind == "masked":
        dropped = torch.rand((rows, n), **at) > KEPT_SHARE
        kept = torch.randint(0, n, (rows, 1), **at)
        x.masked_fill_(dropped.scatter_(1, kept, False), float("-inf"))
    return (x.to(device, getattr(torch, dtype)),)


def reference(data):
    """Return softmax(x, -1), shape and dtype of x."""
    (x,) = data
    return torch.softmax(x, dim=-1)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result for the given inputs in float64, shape of x."""
    (x,) = data
    out = torch.empty(x.shape, device=x.device, dtype=torch.float64)
    step = max(1, CHUNK_ELEMENTS // x.shape[1])
    for start in range(0, x.shape[0], step):
        part = x[start : start + step].double()
        part -= part.amax(-1, keepdim=True)
        part.exp_()
        out[start : start + step] = part.div_(part.sum(-1, keepdim=True))
    return (out,)
