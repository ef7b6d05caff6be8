"""Attention of one new token over a key-value cache: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

SHARPNESS = {"mixed": 2.0, "short": 2.0, "long": 2.0, "large": 30.0}
UNUSED = 16.0


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    batch: int,
    heads: int,
    kv_heads: int,
    length: int,
    dim: int,
    kind: str = "mixed",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (q [batch, heads, dim], k and v [batch, length, kv_heads, dim] float16, lengths [batch] int32).

    Made on the generator's device and moved to `device`. Lengths are from 1 to `length` (mixed, large), at most 3
    (short) or in the last sixteenth (long). Scores have a standard deviation of 2, of 30 for large. What lies behind a
    length is 16 times as big as the rest.
    """
    at = {"device": generator.device, "generator": generator}
    q = torch.randn((batch, heads, dim), **at).mul_(SHARPNESS[kind])
    k = torch.randn((batch, length, kv_heads, dim), dtype=torch.float16, **at)
    v = torch.randn((batch, length, kv_heads, dim), dtype=torch.float16, **at)
    v.add_(torch.randn((batch, 1, kv_heads, dim), dtype=torch.float16, **at))
    low = length - length // 16 if kind == "long" else 1
    high = min(3, length) if kind == "short" else length
    lengths = torch.randint(low, high + 1, (batch,), dtype=torch.int32, **at)
    unused = torch.arange(length, device=generator.device)[None, :] >= lengths[:, None]
    factor = torch.where(unused, UNUSED, 1.0).half()[:, :, None, None]
    return q.to(device, torch.float16), k.mul_(factor).to(device), v.mul_(factor).to(device), lengths.to(device)


def reference(data):
    """Return the attention of each query head over its group's cached keys, [batch, heads, dim] float16."""
    q, k, v, lengths = data
    batch, length, kv_heads, dim = k.shape
    visible = torch.arange(length, device=q.device)[None, :] < lengths[:, None]
    out = torch.nn.functional.scaled_dot_product_attention(
        q.view(batch, kv_heads, -1, dim), k.transpose(1, 2), v.transpose(1, 2), attn_mask=visible[:, None, None, :]
    )
    return out.reshape(q.shape)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result in float64, shape of q."""
    q, k, v, lengths = data
    batch, length, kv_heads, dim = k.shape
    out = torch.empty((batch, kv_heads, q.shape[1] // kv_heads, dim), device=q.device, dtype=torch.float64)
    position = torch.arange(length, device=q.device)
    for b in range(batch):
        keys, values = k[b].double().transpose(0, 1), v[b].double().transpose(0, 1)
        scores = q[b].double().view(kv_heads, -1, dim) @ keys.transpose(1, 2) * dim**-0.5
        scores.masked_fill_(position >= lengths[b], float("-inf"))
        out[b] = scores.softmax(-1) @ values
    return (out.view(q.shape),)
