"""Basic residual block with inference batch norm: inputs, PyTorch reference and float64 oracle."""

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
    k: int,
    h: int,
    w: int,
    down: bool,
    kind: str = "normal",
) -> tuple[torch.Tensor, ...]:
    """Return (x [n, c, h, w], w1 [k, c, 3, 3], bn1 [4, k], w2 [k, k, 3, 3], bn2 [4, k]), with `down` also (w_down
    [k, c, 1, 1], bn_down [4, k]); filters and x are float16, batch norms float32 with rows gamma, beta, mean, variance.

    `kind` is normal, small (filters of a hundredth and variances near 1e-4, so that epsilon counts) or constant (every
    channel of x repeats one value: only the border differs). Without `down`, k has to equal c.
    """
    at = {"device": generator.device, "generator": generator}
    unit = 0.01 if kind == "small" else 1.0

    def filters(rows: int, columns: int, side: int) -> torch.Tensor:
        weight = torch.randn((rows, columns, side, side), **at)
        return weight.mul_(unit * (2.0 / (side * side * columns)) ** 0.5).to(device, torch.float16)

    def norm() -> torch.Tensor:
        gamma = torch.rand(k, **at).add_(0.5)
        beta = torch.randn(k, **at).mul_(0.3)
        mean = torch.randn(k, **at).mul_(0.3 * unit)
        variance = torch.rand(k, **at).mul_(1.5).add_(0.5).mul_(unit * unit)
        return torch.stack((gamma, beta, mean, variance)).to(device)

    size = (1, 1) if kind == "constant" else (h, w)
    x = torch.randn((n, c, *size), **at).expand(n, c, h, w).to(device, torch.float16).contiguous()
    data = [x, filters(k, c, 3), norm(), filters(k, k, 3), norm()]
    if down:
        data += [filters(k, c, 1), norm()]
    return tuple(data)


def batch_norm(x, bn):
    gamma, beta, mean, variance = bn
    return torch.nn.functional.batch_norm(x, mean, variance, gamma, beta, eps=EPS)


def reference(data):
    """Return the block's output [n, k, h / stride, w / stride] in float16."""
    x, w1, bn1, w2, bn2, *down = data
    stride = 2 if down else 1
    y = torch.relu(batch_norm(torch.nn.functional.conv2d(x, w1, stride=stride, padding=1), bn1))
    y = batch_norm(torch.nn.functional.conv2d(y, w2, padding=1), bn2)
    shortcut = batch_norm(torch.nn.functional.conv2d(x, down[0], stride=stride), down[1]) if down else x
    return torch.relu(y + shortcut)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result for the given inputs in float64."""
    x, w1, bn1, w2, bn2, *down = (value.double() if place else value for place, value in enumerate(data))
    stride = 2 if down else 1

    def norm(y: torch.Tensor, bn: torch.Tensor) -> torch.Tensor:
        gamma, beta, mean, variance = bn[:, :, None, None]
        return (y - mean) / torch.sqrt(variance + EPS) * gamma + beta

    parts = []
    step = max(1, CHUNK_ELEMENTS // (max(x.shape[1], w1.shape[0]) * x.shape[2] * x.shape[3]))
    for start in range(0, x.shape[0], step):
        part = x[start : start + step].double()
        y = norm(torch.nn.functional.conv2d(part, w1, stride=stride, padding=1), bn1).relu_()
        y = norm(torch.nn.functional.conv2d(y, w2, padding=1), bn2)
        y += norm(torch.nn.functional.conv2d(part, down[0], stride=stride), down[1]) if down else part
        parts.append(y.relu_())
    return (torch.cat(parts),)
