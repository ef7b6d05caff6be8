"""Backward pass of layer normalisation: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

EPS = 1e-5
CHUNK_ELEMENTS = 1 << 24
OFFSETS = {"normal": 2.0, "offset": 10.0}


def make_inputs(
    generator: torch.Generator, device: torch.device | str, *, rows: int, n: int, dtype: str, kind: str = "normal"
) -> tuple[torch.Tensor, ...]:
    """Return (dy [rows, n], x [rows, n], weight [n], mean [rows], rstd [rows]) on `device`; the last two are float32.

    Each row of dy is noise plus a constant and a multiple of x, so that both row means in the gradient matter. `kind`
    is normal (row means of x within 2 standard deviations) or offset (within 10).
    """
    at = {"device": generator.device, "generator": generator}
    target = getattr(torch, dtype)
    scale = torch.rand((rows, 1), **at).mul_(2.0).sub_(1.0).exp2_()
    shift = torch.rand((rows, 1), **at).mul_(2.0).sub_(1.0).mul_(OFFSETS[kind])
    x = torch.randn((rows, n), **at)
    dy = torch.randn((rows, n), **at)
    dy.add_(x * torch.randn((rows, 1), **at)).add_(torch.randn((rows, 1), **at))
    x = x.add_(shift).mul_(scale).to(target)
    weight = torch.randn(n, **at).mul_(0.5).add_(1.0)
    mean = torch.empty(rows, device=x.device)
    rstd = torch.empty(rows, device=x.device)
    step = max(1, CHUNK_ELEMENTS // n)
    for start in range(0, rows, step):
        part = x[start : start + step].double()
        mean[start : start + step] = part.mean(-1)
        rstd[start : start + step] = (part.var(-1, correction=0) + EPS).rsqrt()
    return dy.to(device, target), x.to(device), weight.to(device, target), mean.to(device), rstd.to(device)


def reference(data):
    """Return (dx [rows, n], dweight [n], dbias [n]), dtypes of x and weight."""
    dy, x, weight, mean, rstd = data
    gradients = torch.ops.aten.native_layer_norm_backward(
        dy.float(),
        x.float(),
        [x.shape[1]],
        mean[:, None],
        rstd[:, None],
        weight.float(),
        torch.empty_like(weight, dtype=torch.float32),
        [True, True, True],
    )
    return tuple(gradient.to(x.dtype) for gradient in gradients)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the exact gradients for the given inputs, mean and rstd as given, in float64."""
    dy, x, weight, mean, rstd = data
    dx = torch.empty(x.shape, device=x.device, dtype=torch.float64)
    dweight = torch.zeros(x.shape[1], device=x.device, dtype=torch.float64)
    dbias = torch.zeros_like(dweight)
    step = max(1, CHUNK_ELEMENTS // x.shape[1])
    for start in range(0, x.shape[0], step):
        rows = slice(start, start + step)
        scale = rstd[rows, None].double()
        normal = (x[rows].double() - mean[rows, None].double()) * scale
        upper = dy[rows].double()
        dweight += (upper * normal).sum(0)
        dbias += upper.sum(0)
        inner = upper * weight.double()
        dx[rows] = (inner - inner.mean(-1, keepdim=True) - normal * (inner * normal).mean(-1, keepdim=True)) * scale
    return dx, dweight, dbias
