"""Gated delta net, w and u of every chunk: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK = 64
ORACLE_ELEMENTS = 1 << 24
GATE_EXPONENTS = {"mixed": (-9.0, -4.0), "flat": (-18.0, -14.0), "steep": (0.0, 3.0)}


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    batch: int,
    length: int,
    heads: int,
    key: int,
    value: int,
    gate: str = "mixed",
) -> tuple[torch.Tensor, ...]:
    """Return (k [B, T, H, K], v [B, T, H, V], beta [B, T, H], A [B, T, H, 64], g [B, T, H]) in float32.

    g is the sum of negative log-gates within a chunk. Its rate differs between heads: at the end of a chunk it is
    about -0.1 to -3 for `gate` mixed, -0.003 to -0.0002 for flat and -50 to -400 for steep.
    """
    at = {"device": generator.device, "generator": generator}
    low, high = GATE_EXPONENTS[gate]
    k = torch.randn((batch, length, heads, key), **at).div_(key**0.5)
    v = torch.randn((batch, length, heads, value), **at)
    beta = torch.randn((batch, length, heads), **at).sigmoid_()
    rate = torch.rand((batch, 1, heads), **at).mul_(high - low).add_(low).exp2_()
    gates = torch.randn((batch, length, heads), **at).abs_().mul_(-rate)
    g = gates.view(batch, -1, CHUNK, heads).cumsum(2).view(batch, length, heads)
    rows = k.view(batch, -1, CHUNK, heads, key).transpose(2, 3)
    gain = g.view(batch, -1, CHUNK, heads).transpose(2, 3)
    decay = (gain[..., :, None] - gain[..., None, :]).tril_(-1).exp_()
    step = beta.view(batch, -1, CHUNK, heads).transpose(2, 3)
    lower = (rows @ rows.transpose(-1, -2)).mul_(decay).mul_(step[..., None]).tril_(-1)
    one = torch.eye(CHUNK, device=lower.device).expand_as(lower)
    inverse = torch.linalg.solve_triangular(lower + one, one, upper=False, unitriangular=True).tril_()
    a = inverse.transpose(2, 3).reshape(batch, length, heads, CHUNK).contiguous()
    return k.to(device), v.to(device), beta.to(device), a.to(device), g.to(device)


def reference(data):
    """Return w [B, T, H, K] and u [B, T, H, V]."""
    k, v, beta, a, g = data
    inverse = by_chunk(a)
    u = inverse @ by_chunk(v * beta[..., None])
    w = inverse @ by_chunk(k * (beta * g.exp())[..., None])
    return by_token(w), by_token(u)


def by_chunk(x):
    """View [B, T, H, D] as [B, T / 64, H, 64, D]."""
    batch, length, heads, width = x.shape
    return x.view(batch, length // CHUNK, CHUNK, heads, width).transpose(2, 3)


def by_token(x):
    """Copy [B, T / 64, H, 64, D] to [B, T, H, D]."""
    batch, chunks, heads, rows, width = x.shape
    return x.transpose(2, 3).reshape(batch, chunks * rows, heads, width)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return w and u for the given inputs in float64."""
    k, v, beta, a, g = data
    w = torch.empty(k.shape, device=k.device, dtype=torch.float64)
    u = torch.empty(v.shape, device=v.device, dtype=torch.float64)
    batch, length, heads, key = k.shape
    step = max(1, ORACLE_ELEMENTS // (heads * CHUNK * (CHUNK + key + v.shape[-1]))) * CHUNK
    for b in range(batch):
        for start in range(0, length, step):
            part = slice(start, start + step)
            rows = a[b, part].double().view(-1, CHUNK, heads, CHUNK)
            scale = beta[b, part].double()[..., None]
            for x, out in ((v[b, part].double() * scale, u), (k[b, part].double() * scale, w)):
                if out is w:
                    x = x * g[b, part].double().exp()[..., None]
                columns = x.view(-1, CHUNK, heads, x.shape[-1])
                out[b, part] = torch.einsum("nihj,njhd->nihd", rows, columns).reshape(x.shape)
    return w, u
