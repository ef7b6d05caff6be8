"""Unit of ShuffleNet at inference: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ELEMENTS = 1 << 24
EPS = 1e-5


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    n: int,
    c: int,
    m: int,
    g: int,
    h: int,
    w: int,
    kind: str = "normal",
) -> tuple[torch.Tensor, ...]:
    """Return (x [n, c, h, w], w1 [m, c / g, 1, 1], bn1 [4, m], w_depth [m, 1, 3, 3], bn2 [4, m], w2 [c, m / g, 1, 1],
    bn3 [4, c]): x and filters are float16, batch norms float32 with rows gamma, beta, mean, variance.

    `kind` is normal, small (filters of a hundredth and variances near 1e-4, so that epsilon counts) or constant (every
    channel of x repeats one value: only the border differs). g has to divide c and m.
    """
    at = {"device": generator.device, "generator": generator}
    unit = 0.01 if kind == "small" else 1.0

    def filters(rows: int, columns: int, side: int) -> torch.Tensor:
        weight = torch.randn((rows, columns, side, side), **at)
        return weight.mul_(unit * (2.0 / (side * side * columns)) ** 0.5).to(device, torch.float16)

    def norm(channels: int) -> torch.Tensor:
        gamma = torch.rand(channels, **at).add_(0.5)
        beta = torch.randn(channels, **at).mul_(0.3)
        mean = torch.randn(channels, **at).mul_(0.3 * unit)
        variance = torch.rand(channels, **at).mul_(1.5).add_(0.5).mul_(unit * unit)
        return torch.stack((gamma, beta, mean, variance)).to(device)

    size = (1, 1) if kind == "constant" else (h, w)
    x = torch.randn((n, c, *size), **at).expand(n, c, h, w).to(device, torch.float16).contiguous()
    return (x, filters(m, c // g, 1), norm(m), filters(m, 1, 3), norm(m), filters(c, m // g, 1), norm(c))


def batch_norm(x, bn):
    gamma, beta, mean, variance = bn
    return torch.nn.functional.batch_norm(x, mean, variance, gamma, beta, eps=EPS)


def reference(data):
    """Return the unit's output [n, c, h, w] in float16."""
    x, w1, bn1, w_depth, bn2, w2, bn3 = data
    n, c, h, w = x.shape
    m = w1.shape[0]
    groups = c // w1.shape[1]
    y = torch.relu(batch_norm(torch.nn.functional.conv2d(x, w1, groups=groups), bn1))
    y = y.view(n, groups, m // groups, h, w).transpose(1, 2).reshape(n, m, h, w)
    y = batch_norm(torch.nn.functional.conv2d(y, w_depth, padding=1, groups=m), bn2)
    y = batch_norm(torch.nn.functional.conv2d(y, w2, groups=groups), bn3)
    return torch.relu(y + x)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result for the given inputs in float64."""
    x, w1, bn1, w_depth, bn2, w2, bn3 = (value.double() if place else value for place, value in enumerate(data))
    m = w1.shape[0]
    groups = x.shape[1] // w1.shape[1]
    channel = torch.arange(m, device=x.device)
    source = channel % groups * (m // groups) + channel // groups

    def norm(y: torch.Tensor, bn: torch.Tensor) -> torch.Tensor:
        gamma, beta, mean, variance = bn[:, :, None, None]
        return (y - mean) / torch.sqrt(variance + EPS) * gamma + beta

    parts = []
    step = max(1, CHUNK_ELEMENTS // (x.shape[1] * x.shape[2] * x.shape[3]))
    for start in range(0, x.shape[0], step):
        part = x[start : start + step].double()
        y = norm(torch.nn.functional.conv2d(part, w1, groups=groups), bn1).relu_()[:, source]
        y = norm(torch.nn.functional.conv2d(y, w_depth, padding=1, groups=m), bn2)
        y = norm(torch.nn.functional.conv2d(y, w2, groups=groups), bn3)
        parts.append(y.add_(part).relu_())
    return (torch.cat(parts),)
