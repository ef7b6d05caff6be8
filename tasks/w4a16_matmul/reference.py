"""Matrix product with 4-bit weights and float16 activations: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_COLUMNS = 1024
LARGE = 16.0


def make_inputs(
    generator: torch.Generator, device: torch.device | str, *, m: int, k: int, n: int, group: int, kind: str = "normal"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (x [m, k] float16, packed [k/8, n] int32, scales [k/group, n] float16, zeros [k/group, n] uint8).

    Made on the generator's device and moved to `device`. `kind` is normal, large (activations 16 times as big),
    select (every row of x picks one row of the weight) or extremes (codes and zero points are 0 or 15).
    """
    at = {"device": generator.device, "generator": generator}
    packed = torch.randint(-(2**31), 2**31, (k // 8, n), dtype=torch.int32, **at)
    zeros = torch.randint(4, 12, (k // group, n), dtype=torch.uint8, **at)
    scales = torch.rand((k // group, n), **at).add_(0.5)
    if kind == "extremes":
        packed = packed.bitwise_and_(0x11111111).mul_(15)
        zeros = torch.randint(0, 2, (k // group, n), dtype=torch.uint8, **at).mul_(15)
    if kind == "select":
        index = torch.randint(k, (m, 1), **at)
        x = torch.zeros((m, k), device=generator.device).scatter_(1, index, torch.randn((m, 1), **at).add_(2.0))
    else:
        x = torch.randn((m, k), **at)
        scales.mul_(k**-0.5 / 4.6)
    if kind == "large":
        x.mul_(LARGE)
    return x.to(device, torch.float16), packed.to(device), scales.to(device, torch.float16), zeros.to(device)


def reference(data):
    """Return x @ weight with weight = (code - zero) * scale, [m, n] float16."""
    x, packed, scales, zeros = data
    groups, n = scales.shape
    shifts = torch.arange(0, 32, 4, device=x.device, dtype=torch.int32)
    codes = (packed[:, None, :] >> shifts[None, :, None]) & 15
    weight = (codes.view(groups, -1, n) - zeros[:, None, :]).to(x.dtype) * scales[:, None, :]
    return torch.matmul(x, weight.view(-1, n))


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact product in float64, [m, n]."""
    x, packed, scales, zeros = data
    groups = scales.shape[0]
    wide = x.double()
    shifts = torch.arange(0, 32, 4, device=x.device, dtype=torch.int32)[None, :, None]
    parts = []
    for start in range(0, packed.shape[1], CHUNK_COLUMNS):
        cols = slice(start, start + CHUNK_COLUMNS)
        codes = ((packed[:, None, cols] >> shifts) & 15).reshape(groups, -1, packed[:, cols].shape[1]).double()
        weight = (codes - zeros[:, None, cols].double()) * scales[:, None, cols].double()
        parts.append(wide @ weight.flatten(0, 1))
    return (torch.cat(parts, dim=1),)
