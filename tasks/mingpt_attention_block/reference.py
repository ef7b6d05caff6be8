"""Causal self-attention layer of minGPT: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

LOUD = 8.0
SHARPNESS = 2.0


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    batch: int,
    length: int,
    width: int,
    heads: int,
    kind: str = "normal",
) -> tuple[torch.Tensor, ...]:
    """Return (x [batch, length, width], w_qkv [3, heads, dim, width], b_qkv [3, heads, dim], w_proj [width, width],
    b_proj [width]) in float32 on the generator's device, moved to `device`; dim is width / heads.

    Scores have a standard deviation of about 2. `kind` is normal, loud (x 8 times as big, with queries and keys as
    before) or constant (all positions of a sequence are equal, so that attention is uniform).
    """
    at = {"device": generator.device, "generator": generator}
    dim = width // heads
    x = torch.randn((batch, 1 if kind == "constant" else length, width), **at)
    w_qkv = torch.randn((3, heads, dim, width), **at).mul_(width**-0.5)
    w_qkv[0].mul_(SHARPNESS)
    b_qkv = torch.randn((3, heads, dim), **at).mul_(0.5)
    w_proj = torch.randn((width, width), **at).mul_(width**-0.5)
    b_proj = torch.randn(width, **at).mul_(0.5)
    if kind == "constant":
        x = x.expand(batch, length, width).contiguous()
    if kind == "loud":
        x.mul_(LOUD)
        w_qkv[:2].div_(LOUD)
    return tuple(value.to(device) for value in (x, w_qkv, b_qkv, w_proj, b_proj))


def reference(data):
    """Return the attention layer's output, [batch, length, width] float32."""
    x, w_qkv, b_qkv, w_proj, b_proj = data
    batch, length, width = x.shape
    heads, dim = b_qkv.shape[1:]
    qkv = torch.nn.functional.linear(x, w_qkv.view(-1, width), b_qkv.view(-1))
    q, k, v = qkv.view(batch, length, 3, heads, dim).permute(2, 0, 3, 1, 4).unbind(0)
    scores = (q @ k.transpose(-2, -1)) * dim**-0.5
    hidden = torch.ones((length, length), device=x.device, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)
    y = (weights @ v).transpose(1, 2).reshape(batch, length, width)
    return torch.nn.functional.linear(y, w_proj, b_proj)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact output in float64, [batch, length, width]."""
    x, w_qkv, b_qkv, w_proj, b_proj = (value.double() for value in data)
    length, dim = x.shape[1], b_qkv.shape[2]
    hidden = torch.ones((length, length), device=x.device, dtype=torch.bool).triu(1)
    out = torch.empty_like(x)
    for row, target in zip(x, out, strict=True):
        q, k, v = torch.einsum("tc,phdc->phtd", row, w_qkv) + b_qkv[:, :, None, :]
        scores = (q @ k.transpose(1, 2) * dim**-0.5).masked_fill_(hidden, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(0, 1).reshape(length, -1)
        target.copy_(y @ w_proj.t() + b_proj)
    return (out,)
