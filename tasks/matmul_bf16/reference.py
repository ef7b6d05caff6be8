"""Matrix product in bfloat16: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ROWS = 1024
LARGE = 1024.0


def make_inputs(
    generator: torch.Generator, device: torch.device | str, *, m: int, k: int, n: int, kind: str = "normal"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (a [m, k], b [k, n]) in bfloat16 on the generator's device, moved to `device`.

    `kind` is normal, large (both factors scaled by 1024, so that the products overflow float16), select (every row of
    a picks one row of b with a signed power of two) or offset (both factors have mean one, so that sums grow with k).
    """
    at = {"device": generator.device, "generator": generator}
    b = torch.randn((k, n), **at)
    if kind == "select":
        index = torch.randint(k, (m, 1), **at)
        weight = torch.randint(-2, 3, (m, 1), **at).float().exp2_() * torch.randn((m, 1), **at).sign_()
        a = torch.zeros((m, k), device=generator.device).scatter_(1, index, weight)
    else:
        a = torch.randn((m, k), **at)
    if kind == "large":
        a, b = a.mul_(LARGE), b.mul_(LARGE)
    elif kind == "offset":
        a, b = a.add_(1.0), b.add_(1.0)
    return a.to(device, torch.bfloat16), b.to(device, torch.bfloat16)


def reference(data):
    """Return a @ b, [m, n] bfloat16."""
    a, b = data
    return torch.matmul(a, b)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact product in float64, [m, n]."""
    a, b = data
    wide = b.double()
    return (torch.cat([rows.double() @ wide for rows in a.split(CHUNK_ROWS)]),)
