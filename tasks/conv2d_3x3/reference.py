"""3x3 convolution with bias, stride 1 and padding 1: inputs, PyTorch reference and float64 oracle."""

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
    dtype: str,
    kind: str = "normal",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (x [n, c, h, w], weight [k, c, 3, 3], bias [k]) of one dtype.

    `kind` is normal, large (x scaled by 200, so that sums in float16 lose their last digits), positive (x at least 1,
    so that the terms cancel through the weights alone) or constant (every channel repeats one value: only the border
    differs).
    """
    at = {"device": generator.device, "generator": generator}
    if kind == "constant":
        x = torch.randn((n, c, 1, 1), **at).expand(n, c, h, w)
    else:
        x = torch.randn((n, c, h, w), **at)
        x = {"normal": x, "large": x * 200.0, "positive": x.abs() + 1.0}[kind]
    weight = torch.randn((k, c, 3, 3), **at).mul_((9 * c) ** -0.5)
    bias = torch.randn(k, **at).mul_(0.5)
    target = getattr(torch, dtype)
    return x.to(device, target).contiguous(), weight.to(device, target), bias.to(device, target)


def reference(data):
    """Return the convolution [n, k, h, w] in the dtype of x; float32 without TF32."""
    x, weight, bias = data
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        return torch.nn.functional.conv2d(x, weight, bias, padding=1)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result for the given inputs in float64, [n, k, h, w]."""
    x, weight, bias = data
    n, c, h, w = x.shape
    k = weight.shape[0]
    taps = weight.double().permute(2, 3, 0, 1).contiguous()
    out = torch.empty((n, k, h, w), device=x.device, dtype=torch.float64)
    step = max(1, CHUNK_ELEMENTS // (max(c, k) * h * w))
    for start in range(0, n, step):
        padded = torch.nn.functional.pad(x[start : start + step].double(), (1, 1, 1, 1))
        total = bias.double().view(1, k, 1).expand(padded.shape[0], k, h * w).contiguous()
        for dy in range(3):
            for dx in range(3):
                total += taps[dy, dx] @ padded[:, :, dy : dy + h, dx : dx + w].flatten(2)
        out[start : start + step] = total.view(-1, k, h, w)
    return (out,)
