"""Gated delta net, states of all chunks: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK = 64
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
    """Return (k [B, T, H, K], w [B, T, H, K], u [B, T, H, V], g [B, T, H]) in float32.

    g is the sum of negative log-gates within a chunk. Its rate differs between heads: at the end of a chunk it is
    about -0.1 to -3 for `gate` mixed, -0.003 to -0.0002 for flat and -50 to -400 for steep. w and u are those of the
    gated delta net for random keys, values and step sizes, so that the states stay bounded.
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
    del decay
    lower.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    pushed = (v * beta[..., None], k * (beta * g.exp())[..., None])
    u, w = (
        torch.linalg.solve_triangular(
            lower, x.view(batch, -1, CHUNK, heads, x.shape[-1]).transpose(2, 3), upper=False, unitriangular=True
        )
        .transpose(2, 3)
        .reshape(x.shape)
        .contiguous()
        for x in pushed
    )
    return k.to(device), w.to(device), u.to(device), g.to(device)


def reference(data):
    """Return h [B, T / 64, H, K, V], the state before every chunk, and v_new [B, T, H, V]."""
    k, w, u, g = data
    keys, erasers, values, gains = (by_chunk(x) for x in (k, w, u, g[..., None]))
    chunks, batch, heads, _, key = keys.shape
    state = torch.zeros((batch, heads, key, u.shape[-1]), device=k.device, dtype=k.dtype)
    states, news = [], []
    for c in range(chunks):
        states.append(state)
        new = values[c] - erasers[c] @ state
        news.append(new)
        last = gains[c][..., -1:, :]
        state = state * last.exp() + keys[c].transpose(-1, -2) @ (new * (last - gains[c]).exp())
    return torch.stack(states, dim=1), torch.stack(news, dim=1).transpose(2, 3).reshape(u.shape)


def by_chunk(x):
    """View [B, T, H, D] as [T / 64, B, H, 64, D]."""
    batch, length, heads, width = x.shape
    return x.view(batch, length // CHUNK, CHUNK, heads, width).permute(1, 0, 3, 2, 4)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return h and v_new for the given inputs in float64, one chunk at a time."""
    k, w, u, g = data
    batch, length, heads, key = k.shape
    value = u.shape[-1]
    at = {"device": k.device, "dtype": torch.float64}
    states = torch.empty((batch, length // CHUNK, heads, key, value), **at)
    news = torch.empty(u.shape, **at)
    state = torch.zeros((batch, heads, key, value), **at)
    for c in range(length // CHUNK):
        part = slice(c * CHUNK, (c + 1) * CHUNK)
        states[:, c] = state
        news[:, part] = u[:, part].double() - torch.einsum("bthk,bhkv->bthv", w[:, part].double(), state)
        gain = g[:, part].double()
        kept = (gain[:, -1:] - gain).exp()[..., None] * news[:, part]
        added = torch.einsum("bthk,bthv->bhkv", k[:, part].double(), kept)
        state = state * gain[:, -1].exp()[..., None, None] + added
    return states, news
