"""Linear layer with GELU in bfloat16: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ROWS = 1024
LARGE = 6.0


def make_inputs(
    generator: torch.Generator, device: torch.device | str, *, m: int, k: int, n: int, kind: str = "normal"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (x [m, k], weight [n, k], bias [n]) in bfloat16 on the generator's device, moved to `device`.

    `kind` is normal (the activation has unit variance before the bias), large (six times that, so that GELU
    saturates on both sides) or select (every row of x picks one column of the weight with a signed power of two).
    """
    at = {"device": generator.device, "generator": generator}
    weight = torch.randn((n, k), **at)
    bias = torch.randn(n, **at).mul_(0.5)
    if kind == "select":
        index = torch.randint(k, (m, 1), **at)
        factor = torch.randint(-1, 2, (m, 1), **at).float().exp2_() * torch.randn((m, 1), **at).sign_()
        x = torch.zeros((m, k), device=generator.device).scatter_(1, index, factor)
    else:
        x = torch.randn((m, k), **at)
        weight.mul_(k**-0.5)
    if kind == "large":
        x, bias = x.mul_(LARGE), bias.mul_(LARGE)
    return x.to(device, torch.bfloat16), weight.to(device, torch.bfloat16), bias.to(device, torch.bfloat16)


def reference(data):
    """Return gelu(x @ weight.T + bias) with the tanh form of GELU, [m, n] bfloat16."""
    x, weight, bias = data
    return torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias), approximate="tanh")


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result in float64, [m, n]."""
    x, weight, bias = data
    wide = weight.double().t()
    out = torch.empty((x.shape[0], weight.shape[0]), device=x.device, dtype=torch.float64)
    for rows, target in zip(x.split(CHUNK_ROWS), out.split(CHUNK_ROWS), strict=True):
        z = rows.double() @ wide + bias.double()
        target.copy_(torch.nn.functional.gelu(z, approximate="tanh"))
    return (out,)
