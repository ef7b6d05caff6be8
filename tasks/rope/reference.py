"""Rotary position embedding: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

BASE = 10000.0
LAST_START = 8192


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    batch: int,
    length: int,
    q_heads: int,
    k_heads: int,
    width: int,
    kind: str = "normal",
) -> tuple[torch.Tensor, ...]:
    """Return (q [B, S, Hq, D], k [B, S, Hk, D], cos [S, D/2], sin [S, D/2]) on `device`: bfloat16, tables float32.

    Positions start at a random place. `kind` is normal or equal (both halves of a head hold the same values, so that
    the two products of each result nearly cancel where the angle is near 45 degrees).
    """
    at = {"device": generator.device, "generator": generator}
    q = torch.randn((batch, length, q_heads, width), **at)
    k = torch.randn((batch, length, k_heads, width), **at)
    if kind == "equal":
        q[..., width // 2 :] = q[..., : width // 2]
        k[..., width // 2 :] = k[..., : width // 2]
    start = torch.randint(1, LAST_START, (1,), **at).double()
    position = start + torch.arange(length, device=generator.device, dtype=torch.float64)
    exponent = torch.arange(width // 2, device=generator.device, dtype=torch.float64) * (-2.0 / width)
    angle = position[:, None] * torch.pow(BASE, exponent)
    cos, sin = angle.cos().float(), angle.sin().float()
    return q.to(device, torch.bfloat16), k.to(device, torch.bfloat16), cos.to(device), sin.to(device)


def rotate(x, cos, sin):
    """Return x with its two halves rotated by the angles of its position."""
    first, second = x.float().chunk(2, dim=-1)
    c, s = cos[:, None, :], sin[:, None, :]
    return torch.cat((first * c - second * s, second * c + first * s), dim=-1).to(x.dtype)


def reference(data):
    """Return (rotated q, rotated k), shapes and dtypes of q and k."""
    q, k, cos, sin = data
    return rotate(q, cos, sin), rotate(k, cos, sin)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the exact rotations for the given inputs and tables in float64."""
    q, k, cos, sin = data
    c, s = cos.double()[:, None, :], sin.double()[:, None, :]
    results = []
    for x in (q, k):
        half = x.shape[-1] // 2
        out = torch.empty(x.shape, device=x.device, dtype=torch.float64)
        for b in range(x.shape[0]):
            first, second = x[b, ..., :half].double(), x[b, ..., half:].double()
            out[b, ..., :half] = first * c - second * s
            out[b, ..., half:] = second * c + first * s
        results.append(out)
    return results[0], results[1]
