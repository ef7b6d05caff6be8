"""Causal depthwise convolution of width 4 with SiLU: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ELEMENTS = 1 << 24
WIDTH = 4


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    batch: int,
    channels: int,
    length: int,
    dtype: str,
    kind: str = "normal",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (x [batch, channels, length], weight [channels, 4], bias [channels]) of one dtype.

    `kind` is normal, large (activations of some hundreds: exp of their negatives overflows float32), constant (every
    sequence repeats one value, so that only the first three positions tell what lies before the start) or late (the
    weights of the three earlier positions are ten times the last one).
    """
    at = {"device": generator.device, "generator": generator}
    x = torch.randn((batch, channels, 1 if kind == "constant" else length), **at)
    x = x.expand(batch, channels, length).mul(200.0 if kind == "large" else 1.0)
    weight = torch.randn((channels, WIDTH), **at).mul_(0.5)
    if kind == "late":
        weight[:, -1] *= 0.1
    bias = torch.randn(channels, **at).mul_(0.5)
    target = getattr(torch, dtype)
    return x.to(device, target).contiguous(), weight.to(device, target), bias.to(device, target)


def reference(data):
    """Return silu(causal depthwise convolution of x), shape and dtype of x."""
    x, weight, bias = data
    width = weight.shape[1]
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        y = torch.nn.functional.conv1d(x, weight[:, None], bias, padding=width - 1, groups=x.shape[1])
    return torch.nn.functional.silu(y[..., : x.shape[-1]])


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result for the given inputs in float64, shape of x."""
    x, weight, bias = data
    batch, channels, length = x.shape
    out = torch.empty(x.shape, device=x.device, dtype=torch.float64)
    step = max(1, CHUNK_ELEMENTS // (batch * length))
    for start in range(0, channels, step):
        part = slice(start, start + step)
        padded = torch.nn.functional.pad(x[:, part].double(), (WIDTH - 1, 0))
        z = bias[part, None].double().expand(batch, -1, length).clone()
        for tap in range(WIDTH):
            z += weight[part, tap, None].double() * padded[..., tap : tap + length]
        out[:, part] = z * torch.sigmoid(z)
    return (out,)
