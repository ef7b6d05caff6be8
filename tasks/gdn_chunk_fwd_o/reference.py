"""Gated delta net, outputs of every chunk: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK = 64
ORACLE_ELEMENTS = 1 << 24
STATE_SCALE = 0.5
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
    """Return (q [B, T, H, K], k [B, T, H, K], v_new [B, T, H, V], h [B, T / 64, H, K, V], g [B, T, H]) in float32.

    g is the sum of negative log-gates within a chunk. Its rate differs between heads: at the end of a chunk it is
    about -0.1 to -3 for `gate` mixed, -0.003 to -0.0002 for flat and -50 to -400 for steep. Every chunk, the first
    one too, has a state of such size that it weighs as much as the chunk's own tokens.
    """
    at = {"device": generator.device, "generator": generator}
    low, high = GATE_EXPONENTS[gate]
    q = torch.randn((batch, length, heads, key), **at)
    k = torch.randn((batch, length, heads, key), **at).div_(key**0.5)
    v_new = torch.randn((batch, length, heads, value), **at)
    h = torch.randn((batch, length // CHUNK, heads, key, value), **at).mul_(STATE_SCALE)
    rate = torch.rand((batch, 1, heads), **at).mul_(high - low).add_(low).exp2_()
    gates = torch.randn((batch, length, heads), **at).abs_().mul_(-rate)
    g = gates.view(batch, -1, CHUNK, heads).cumsum(2).view(batch, length, heads)
    return tuple(x.to(device) for x in (q, k, v_new, h, g))


def reference(data):
    """Return o [B, T, H, V]."""
    q, k, v_new, h, g = data
    queries, keys, values, gain = (by_chunk(x) for x in (q, k, v_new, g[..., None]))
    later = torch.ones((CHUNK, CHUNK), device=q.device, dtype=torch.bool).triu(1)
    decay = (gain - gain.transpose(-1, -2)).masked_fill(later, float("-inf")).exp()
    inside = (queries @ keys.transpose(-1, -2) * decay) @ values
    o = (queries @ h * gain.exp() + inside) * q.shape[-1] ** -0.5
    return o.transpose(2, 3).reshape(v_new.shape)


def by_chunk(x):
    """View [B, T, H, D] as [B, T / 64, H, 64, D]."""
    batch, length, heads, width = x.shape
    return x.view(batch, length // CHUNK, CHUNK, heads, width).transpose(2, 3)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return o for the given inputs in float64, some chunks at a time."""
    q, k, v_new, h, g = data
    batch, length, heads, key = q.shape
    value = v_new.shape[-1]
    o = torch.empty(v_new.shape, device=q.device, dtype=torch.float64)
    step = max(1, ORACLE_ELEMENTS // (heads * (CHUNK * (CHUNK + 2 * key + 2 * value) + key * value)))
    earlier = torch.ones((CHUNK, CHUNK), device=q.device, dtype=torch.bool).tril()
    for b in range(batch):
        for start in range(0, length // CHUNK, step):
            part = slice(start * CHUNK, (start + step) * CHUNK)
            queries, keys, values = (
                x[b, part].double().view(-1, CHUNK, heads, x.shape[-1]).transpose(1, 2) for x in (q, k, v_new)
            )
            gain = g[b, part].double().view(-1, CHUNK, heads).transpose(1, 2)
            weights = torch.einsum("nhid,nhjd->nhij", queries, keys)
            gap = (gain[..., :, None] - gain[..., None, :]).masked_fill_(~earlier, 0.0)
            weights *= gap.exp_() * earlier
            total = torch.einsum("nhij,nhjv->nihv", weights, values)
            state = h[b, start : start + step].double()
            total += torch.einsum("nhid,nhdv->nihv", queries * gain.exp()[..., None], state)
            o[b, part] = total.mul_(key**-0.5).reshape(-1, heads, value)
    return (o,)
