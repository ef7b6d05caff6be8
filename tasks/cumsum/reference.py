"""Inclusive prefix sums over the last dimension: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ELEMENTS = 1 << 24


def make_inputs(
    generator: torch.Generator, device: torch.device | str, *, rows: int, n: int, kind: str = "walk"
) -> tuple[torch.Tensor]:
    """Return (x [rows, n] float32,) on the generator's device, moved to `device`.

    `kind` is walk (normal values, so that the sums grow as the square root of the place), drift (the same plus a
    constant per row), constant (each row repeats one value) or sparse (99 of 100 values are zero).
    """
    at = {"device": generator.device, "generator": generator}
    level = torch.rand((rows, 1), **at).add_(0.5).mul_(torch.randn((rows, 1), **at).sign_())
    x = torch.randn((rows, n), **at)
    if kind == "constant":
        x.copy_(level.expand(rows, n))
    if kind == "drift":
        x.add_(level)
    if kind == "sparse":
        x.mul_(torch.rand((rows, n), **at) < 0.01)
        x[:, 0] = level[:, 0]
    return (x.to(device),)


def reference(data):
    """Return cumsum(x, -1), [rows, n] float32."""
    (x,) = data
    return torch.cumsum(x, dim=-1)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the prefix sums for the given input in float64, [rows, n]."""
    (x,) = data
    out = torch.empty(x.shape, device=x.device, dtype=torch.float64)
    step = max(1, CHUNK_ELEMENTS // x.shape[1])
    for start in range(0, x.shape[0], step):
        torch.cumsum(x[start : start + step].double(), dim=-1, out=out[start : start + step])
    return (out,)
