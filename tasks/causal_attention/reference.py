"""Causal attention in bfloat16: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ROWS = 512
SHARPNESS = {"normal": 2.0, "large": 30.0, "uniform": 2.0}


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    batch: int,
    heads: int,
    length: int,
    dim: int,
    kind: str = "normal",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (q, k, v), each [batch, heads, length, dim] bfloat16, made on the generator's device, moved to `device`.

    Scores have a standard deviation of 2. `kind` is normal, large (a deviation of 30: exponentials overflow without
    the row maximum) or uniform (all keys of a head are equal, so that every row is the mean of the values before it).
    The values have an offset for each channel, so that rows over many keys do not vanish.
    """
    at = {"device": generator.device, "generator": generator}
    shape = (batch, heads, length, dim)
    q = torch.randn(shape, **at).mul_(SHARPNESS[kind])
    k = torch.randn(shape, **at)
    v = torch.randn(shape, **at).add_(torch.randn((batch, heads, 1, dim), **at).mul_(0.5))
    if kind == "uniform":
        k = k[:, :, :1].expand(shape).contiguous()
    return q.to(device, torch.bfloat16), k.to(device, torch.bfloat16), v.to(device, torch.bfloat16)


def reference(data):
    """Return softmax(q k^T / sqrt(dim)) v over the keys up to each query's position, shape and dtype of q."""
    q, k, v = data
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result in float64, shape of q."""
    q, k, v = data
    length, dim = q.shape[2:]
    out = torch.empty(q.shape, device=q.device, dtype=torch.float64)
    position = torch.arange(length, device=q.device)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            keys, values = k[b, h].double(), v[b, h].double()
            for start in range(0, length, CHUNK_ROWS):
                rows = slice(start, start + CHUNK_ROWS)
                scores = q[b, h, rows].double() @ keys.t() * dim**-0.5
                scores.masked_fill_(position[None, :] > position[rows, None], float("-inf"))
                out[b, h, rows] = scores.softmax(-1) @ values
    return (out,)
