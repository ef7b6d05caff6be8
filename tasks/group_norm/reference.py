"""Group normalisation: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

GROUPS = 32
EPS = 1e-5
CHUNK_ELEMENTS = 1 << 24
STD_EXPONENTS = {"mixed": (-2.0, 3.0), "tiny": (-10.0, -7.0), "flat": (-9.0, -5.0)}


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    shape: tuple[int, int, int, int],
    dtype: str,
    kind: str = "mixed",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (x [N, C, H, W], weight [C], bias [C]) on the generator's device, moved to `device`.

    `kind` is mixed (standard deviations of the groups from 2^-2 to 2^3, means within 3 of them), tiny (epsilon
    outweighs the variance) or flat (each group repeats one value of 2^-9 to 2^-5).
    """
    at = {"device": generator.device, "generator": generator}
    batch, channels = shape[:2]
    low, high = STD_EXPONENTS[kind]
    scale = torch.rand((batch, GROUPS, 1), **at).mul_(high - low).add_(low).exp2_()
    shift = torch.rand((batch, GROUPS, 1), **at).mul_(6.0).sub_(3.0)
    x = torch.randn(shape, **at).view(batch, GROUPS, -1)
    x = scale.mul_(shift.sign()).expand_as(x) if kind == "flat" else x.add_(shift).mul_(scale)
    weight = torch.randn(channels, **at).mul_(0.5).add_(1.0)
    bias = torch.randn(channels, **at)
    target = getattr(torch, dtype)
    return x.reshape(shape).contiguous().to(device, target), weight.to(device, target), bias.to(device, target)


def reference(data):
    """Return group_norm(x, 32 groups, weight, bias), shape and dtype of x, with statistics in float32."""
    x, weight, bias = data
    return torch.nn.functional.group_norm(x.float(), GROUPS, weight.float(), bias.float(), EPS).to(x.dtype)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result for the given inputs in float64, shape of x."""
    x, weight, bias = data
    batch, channels = x.shape[:2]
    groups = x.view(batch * GROUPS, channels // GROUPS, -1)
    gain = weight.double().view(GROUPS, -1, 1).repeat(batch, 1, 1)
    level = bias.double().view(GROUPS, -1, 1).repeat(batch, 1, 1)
    out = torch.empty(groups.shape, device=x.device, dtype=torch.float64)
    step = max(1, CHUNK_ELEMENTS // groups[0].numel())
    for start in range(0, groups.shape[0], step):
        part = slice(start, start + step)
        h = groups[part].double()
        h -= h.mean((1, 2), keepdim=True)
        h *= (h.square().mean((1, 2), keepdim=True) + EPS).rsqrt()
        out[part] = h * gain[part] + level[part]
    return (out.view(x.shape),)
