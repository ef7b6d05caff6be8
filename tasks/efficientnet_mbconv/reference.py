"""Inverted bottleneck of EfficientNet at inference: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ELEMENTS = 1 << 24
EPS = 1e-3


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    n: int,
    c: int,
    e: int,
    k: int,
    h: int,
    w: int,
    side: int,
    kind: str = "normal",
) -> tuple[torch.Tensor, ...]:
    """Return (x [n, c, h, w], w_expand [e, c, 1, 1], bn1 [4, e], w_depth [e, 1, side, side], bn2 [4, e], w_project
    [k, e, 1, 1], bn3 [4, k]): x and filters are float16, batch norms float32 with rows gamma, beta, mean, variance.

    `kind` is normal, small (filters of a hundredth and variances near 1e-4, so that epsilon counts), steep (gammas of
    about 8, so that SiLU is nearly ReLU) or constant (every channel of x repeats one value: only the border differs).
    """
    at = {"device": generator.device, "generator": generator}
    unit = 0.01 if kind == "small" else 1.0

    def filters(rows: int, columns: int, width: int) -> torch.Tensor:
        weight = torch.randn((rows, columns, width, width), **at)
        return weight.mul_(unit * (2.0 / (width * width * columns)) ** 0.5).to(device, torch.float16)

    def norm(channels: int, scale: float = 1.0) -> torch.Tensor:
        gamma = torch.rand(channels, **at).add_(0.5).mul_(scale)
        beta = torch.randn(channels, **at).mul_(0.5)
        mean = torch.randn(channels, **at).mul_(0.3 * unit)
        variance = torch.rand(channels, **at).mul_(1.5).add_(0.5).mul_(unit * unit)
        return torch.stack((gamma, beta, mean, variance)).to(device)

    size = (1, 1) if kind == "constant" else (h, w)
    x = torch.randn((n, c, *size), **at).expand(n, c, h, w).to(device, torch.float16).contiguous()
    steep = 8.0 if kind == "steep" else 1.0
    return (x, filters(e, c, 1), norm(e, steep), filters(e, 1, side), norm(e), filters(k, e, 1), norm(k))


def batch_norm(x, bn):
    gamma, beta, mean, variance = bn
    return torch.nn.functional.batch_norm(x, mean, variance, gamma, beta, eps=EPS)


def reference(data):
    """Return the block's output [n, k, h / stride, w / stride] in float16."""
    x, w_expand, bn1, w_depth, bn2, w_project, bn3 = data
    e, _, side, _ = w_depth.shape
    residual = w_project.shape[0] == x.shape[1]
    stride = 1 if residual else 2
    y = torch.nn.functional.silu(batch_norm(torch.nn.functional.conv2d(x, w_expand), bn1))
    y = torch.nn.functional.conv2d(y, w_depth, stride=stride, padding=side // 2, groups=e)
    y = torch.nn.functional.silu(batch_norm(y, bn2))
    y = batch_norm(torch.nn.functional.conv2d(y, w_project), bn3)
    return y + x if residual else y


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result for the given inputs in float64."""
    x, w_expand, bn1, w_depth, bn2, w_project, bn3 = (v.double() if place else v for place, v in enumerate(data))
    e, _, side, _ = w_depth.shape
    residual = w_project.shape[0] == x.shape[1]
    stride = 1 if residual else 2

    def norm(y: torch.Tensor, bn: torch.Tensor) -> torch.Tensor:
        gamma, beta, mean, variance = bn[:, :, None, None]
        return (y - mean) / torch.sqrt(variance + EPS) * gamma + beta

    def silu(y: torch.Tensor) -> torch.Tensor:
        return y * torch.sigmoid(y)

    parts = []
    step = max(1, CHUNK_ELEMENTS // (e * x.shape[2] * x.shape[3]))
    for start in range(0, x.shape[0], step):
        part = x[start : start + step].double()
        y = silu(norm(torch.nn.functional.conv2d(part, w_expand), bn1))
        y = silu(norm(torch.nn.functional.conv2d(y, w_depth, stride=stride, padding=side // 2, groups=e), bn2))
        y = norm(torch.nn.functional.conv2d(y, w_project), bn3)
        parts.append(y + part if residual else y)
    return (torch.cat(parts),)
