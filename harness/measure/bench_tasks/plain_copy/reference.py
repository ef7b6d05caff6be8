"""A copy: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch


def make_inputs(generator: torch.Generator, device: torch.device | str, *, elements: int) -> tuple[torch.Tensor, ...]:
    """Return (x [elements] float32,)."""
    return (torch.randn(elements, device=generator.device, generator=generator).to(device),)


def reference(data):
    """Return a copy of x."""
    return data[0].clone()


def oracle(data):
    """Return x in float64."""
    return (data[0].double(),)
