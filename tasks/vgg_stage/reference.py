"""Stage of VGG, two 3x3 convolutions and a max pooling: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ELEMENTS = 1 << 24


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    n: int,
    c: int,
    k: int,
    h: int,
    w: int,
    kind: str = "normal",
) -> tuple[torch.Tensor, ...]:
    """Return (x [n, c, h, w], w1 [k, c, 3, 3], b1 [k], w2 [k, k, 3, 3], b2 [k]) in float16.

    `kind` is normal, negative (a second bias near -1.5, so that all four pixels of many windows are cut to zero), large
    (x and biases times 64) or constant (every channel of x repeats one value: windows inside tie, the border differs).
    """
    at = {"device": generator.device, "generator": generator}
    unit = 64.0 if kind == "large" else 1.0

    def filters(columns: int) -> torch.Tensor:
        return torch.randn((k, columns, 3, 3), **at).mul_((2.0 / (9 * columns)) ** 0.5).to(device, torch.float16)

    def bias(mean: float) -> torch.Tensor:
        return torch.randn(k, **at).mul_(0.3).add_(mean).mul_(unit).to(device, torch.float16)

    size = (1, 1) if kind == "constant" else (h, w)
    x = torch.randn((n, c, *size), **at).mul_(unit).expand(n, c, h, w).to(device, torch.float16).contiguous()
    return x, filters(c), bias(0.2), filters(k), bias(-1.5 if kind == "negative" else 0.0)


def reference(data):
    """Return the pooled activations [n, k, h / 2, w / 2] in float16."""
    x, w1, b1, w2, b2 = data
    y = torch.relu(torch.nn.functional.conv2d(x, w1, b1, padding=1))
    y = torch.relu(torch.nn.functional.conv2d(y, w2, b2, padding=1))
    return torch.nn.functional.max_pool2d(y, 2)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result for the given inputs in float64."""
    x, w1, b1, w2, b2 = (value.double() if place else value for place, value in enumerate(data))
    parts = []
    step = max(1, CHUNK_ELEMENTS // (max(x.shape[1], w1.shape[0]) * x.shape[2] * x.shape[3]))
    for start in range(0, x.shape[0], step):
        y = torch.nn.functional.conv2d(x[start : start + step].double(), w1, b1, padding=1).relu_()
        y = torch.nn.functional.conv2d(y, w2, b2, padding=1).relu_()
        n, k, h, w = y.shape
        windows = y[:, :, : h // 2 * 2, : w // 2 * 2].reshape(n, k, h // 2, 2, w // 2, 2)
        parts.append(windows.amax((3, 5)))
    return (torch.cat(parts),)
