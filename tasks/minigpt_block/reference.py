"""Transformer block of minGPT: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

EPS = 1e-5
LOUD = 4.0


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
    """Return (x [batch, length, width], weight and bias of the first norm [width], w_qkv [3, heads, dim, width], b_qkv
    [3, heads, dim], w_proj [width, width], b_proj [width], weight and bias of the second norm [width], w_up [4 width,
    width], b_up [4 width], w_down [width, 4 width], b_down [width]) in bfloat16; dim is width / heads.

    Made on the generator's device and moved to `device`. Tokens have means and scales of their own; both branches are
    about as large as x. `kind` is normal, loud (x 4 times as big) or constant (all positions of a sequence are equal).
    """
    at = {"device": generator.device, "generator": generator}
    dim = width // heads
    positions = 1 if kind == "constant" else length
    scale = torch.rand((batch, positions, 1), **at).add_(0.5)
    x = torch.randn((batch, positions, width), **at).mul_(scale)
    x = x.add_(torch.randn((batch, positions, 1), **at).mul_(0.7)).expand(batch, length, width)
    if kind == "loud":
        x = x * LOUD
    norms = [torch.randn(width, **at).mul_(0.3).add_(1.0 - i % 2) for i in range(4)]
    w_qkv = torch.randn((3, heads, dim, width), **at).mul_(width**-0.5)
    b_qkv = torch.randn((3, heads, dim), **at).mul_(0.3)
    w_proj = torch.randn((width, width), **at).mul_(width**-0.5)
    w_up = torch.randn((4 * width, width), **at).mul_(width**-0.5)
    b_up = torch.randn(4 * width, **at).mul_(0.3)
    w_down = torch.randn((width, 4 * width), **at).mul_(1.5 * (4 * width) ** -0.5)
    b_proj, b_down = (torch.randn(width, **at).mul_(0.3) for _ in range(2))
    values = (x, *norms[:2], w_qkv, b_qkv, w_proj, b_proj, *norms[2:], w_up, b_up, w_down, b_down)
    return tuple(value.to(device, torch.bfloat16).contiguous() for value in values)


def reference(data):
    """Return the block's output, [batch, length, width] bfloat16."""
    x, n1_w, n1_b, w_qkv, b_qkv, w_proj, b_proj, n2_w, n2_b, w_up, b_up, w_down, b_down = data
    batch, length, width = x.shape
    heads, dim = b_qkv.shape[1:]
    h = torch.nn.functional.layer_norm(x, (width,), n1_w, n1_b, EPS)
    qkv = torch.nn.functional.linear(h, w_qkv.view(-1, width), b_qkv.view(-1))
    q, k, v = qkv.view(batch, length, 3, heads, dim).permute(2, 0, 3, 1, 4).unbind(0)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + torch.nn.functional.linear(y.transpose(1, 2).reshape(batch, length, width), w_proj, b_proj)
    h = torch.nn.functional.layer_norm(x, (width,), n2_w, n2_b, EPS)
    h = torch.nn.functional.gelu(torch.nn.functional.linear(h, w_up, b_up), approximate="tanh")
    return x + torch.nn.functional.linear(h, w_down, b_down)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact output in float64, [batch, length, width]."""
    x, n1_w, n1_b, w_qkv, b_qkv, w_proj, b_proj, n2_w, n2_b, w_up, b_up, w_down, b_down = (v.double() for v in data)
    length, width = x.shape[1:]
    dim = b_qkv.shape[2]
    hidden = torch.ones((length, length), device=x.device, dtype=torch.bool).triu(1)
    out = torch.empty_like(x)
    for row, target in zip(x, out, strict=True):
        h = torch.nn.functional.layer_norm(row, (width,), n1_w, n1_b, EPS)
        q, k, v = torch.einsum("tc,phdc->phtd", h, w_qkv) + b_qkv[:, :, None, :]
        scores = (q @ k.transpose(1, 2) * dim**-0.5).masked_fill_(hidden, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(0, 1).reshape(length, -1)
        middle = row + y @ w_proj.t() + b_proj
        h = torch.nn.functional.layer_norm(middle, (width,), n2_w, n2_b, EPS)
        h = torch.nn.functional.gelu(h @ w_up.t() + b_up, approximate="tanh")
        target.copy_(middle + h @ w_down.t() + b_down)
    return (out,)
