"""Many small float32 matrix products: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_MATRICES = 4096
LARGE = 1e15


def make_inputs(
    generator: torch.Generator, device: torch.device | str, *, batch: int, m: int, k: int, n: int, kind: str = "normal"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (a [batch, m, k], b [batch, k, n]) in float32 on the generator's device, moved to `device`.

    `kind` is normal, large (both factors scaled by 1e15, far beyond float16) or offset (both factors have mean one).
    """
    at = {"device": generator.device, "generator": generator}
    a = torch.randn((batch, m, k), **at)
    b = torch.randn((batch, k, n), **at)
    if kind == "large":
        a, b = a.mul_(LARGE), b.mul_(LARGE)
    elif kind == "offset":
        a, b = a.add_(1.0), b.add_(1.0)
    return a.to(device), b.to(device)


def reference(data):
    """Return the product of every pair of matrices, [batch, m, n] float32."""
    a, b = data
    return torch.bmm(a, b)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact products in float64, [batch, m, n]."""
    a, b = data
    out = torch.empty((a.shape[0], a.shape[1], b.shape[2]), device=a.device, dtype=torch.float64)
    for start in range(0, a.shape[0], CHUNK_MATRICES):
        part = slice(start, start + CHUNK_MATRICES)
        out[part] = a[part].double() @ b[part].double()
    return (out,)
