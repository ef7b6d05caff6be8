"""Block of Swin-MLP: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ELEMENTS = 1 << 22
EPS = 1e-5


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    n: int,
    h: int,
    w: int,
    c: int,
    heads: int,
    window: int,
    m: int,
    kind: str = "normal",
) -> tuple[torch.Tensor, ...]:
    """Return (x [n, h, w, c], gamma1 [c], beta1 [c], w_mix [heads p, p, 1], b_mix [heads p], gamma2 [c], beta2 [c],
    w_up [m, c], b_up [m], w_down [c, m], b_down [c]) in float16 with p = window^2.

    `kind` is normal, small (x near 3e-3, so that the epsilon of the first norm counts), offset (every token of x has a
    mean near 4) or constant (all tokens of an image are equal: only the rows of w_mix tell positions apart). `window`
    has to divide h and w, `heads` has to divide c.
    """
    at = {"device": generator.device, "generator": generator}
    p = window * window

    def weight(*shape: int, fan: int, gain: float = 1.0) -> torch.Tensor:
        return torch.randn(shape, **at).mul_(gain / fan**0.5).to(device, torch.float16)

    def vector(size: int, mean: float = 0.0, spread: float = 0.3) -> torch.Tensor:
        return torch.randn(size, **at).mul_(spread).add_(mean).to(device, torch.float16)

    size = (1, 1) if kind == "constant" else (h, w)
    x = torch.randn((n, *size, c), **at)
    if kind == "small":
        x *= 3e-3
    if kind == "offset":
        x += torch.randn((n, *size, 1), **at).add_(4.0)
    x = x.expand(n, h, w, c).to(device, torch.float16).contiguous()
    return (
        x,
        vector(c, 1.0),
        vector(c),
        weight(heads * p, p, 1, fan=p),
        vector(heads * p),
        vector(c, 1.0),
        vector(c),
        weight(m, c, fan=c),
        vector(m),
        weight(c, m, fan=m, gain=1.5),
        vector(c),
    )


def reference(data):
    """Return the block's output [n, h, w, c] in float16."""
    x, gamma1, beta1, w_mix, b_mix, gamma2, beta2, w_up, b_up, w_down, b_down = data
    n, h, w, c = x.shape
    p = w_mix.shape[1]
    heads = w_mix.shape[0] // p
    side = round(p**0.5)
    y = torch.nn.functional.layer_norm(x, (c,), gamma1, beta1, EPS)
    y = y.view(n, h // side, side, w // side, side, heads, c // heads).permute(0, 1, 3, 5, 2, 4, 6)
    y = torch.nn.functional.conv1d(y.reshape(-1, heads * p, c // heads), w_mix, b_mix, groups=heads)
    y = y.view(n, h // side, w // side, heads, side, side, c // heads).permute(0, 1, 4, 2, 5, 3, 6)
    x = x + y.reshape(n, h, w, c)
    y = torch.nn.functional.layer_norm(x, (c,), gamma2, beta2, EPS)
    y = torch.nn.functional.gelu(torch.nn.functional.linear(y, w_up, b_up))
    return x + torch.nn.functional.linear(y, w_down, b_down)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result for the given inputs in float64."""
    x, gamma1, beta1, w_mix, b_mix, gamma2, beta2, w_up, b_up, w_down, b_down = (
        value.double() if place else value for place, value in enumerate(data)
    )
    _, h, w, c = x.shape
    p = w_mix.shape[1]
    heads = w_mix.shape[0] // p
    side = round(p**0.5)

    def norm(y: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
        centred = y - y.mean(-1, keepdim=True)
        return centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + EPS) * gamma + beta

    parts = []
    step = max(1, CHUNK_ELEMENTS // (h * w * w_up.shape[0]))
    mix, shift = w_mix.view(heads, side, side, side, side), b_mix.view(heads, side, side)
    for start in range(0, x.shape[0], step):
        part = x[start : start + step].double()
        y = norm(part, gamma1, beta1).view(-1, h // side, side, w // side, side, heads, c // heads)
        y = torch.einsum("gabij,nyixjgd->nyaxbgd", mix, y) + shift.permute(1, 2, 0)[:, None, :, :, None]
        part = part + y.reshape(part.shape)
        y = norm(part, gamma2, beta2) @ w_up.t() + b_up
        y = 0.5 * y * (1.0 + torch.erf(y * 0.5**0.5))
        parts.append(part + y @ w_down.t() + b_down)
    return (torch.cat(parts),)
