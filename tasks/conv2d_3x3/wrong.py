"""Plausible wrong kernels of conv2d_3x3, each of which a checking case has to expose."""

from __future__ import annotations

import torch
from torch.nn.functional import conv2d, pad


def no_bias(data):
    """Leave out the bias."""
    x, weight, _ = data
    return conv2d(x, weight, None, padding=1)


def flipped(data):
    """Flip the filter, as a mathematical convolution does."""
    x, weight, bias = data
    return conv2d(x, weight.flip(2, 3), bias, padding=1)


def taps_transposed(data):
    """Swap rows and columns of the filter."""
    x, weight, bias = data
    return conv2d(x, weight.transpose(2, 3), bias, padding=1)


def replicated_border(data):
    """Repeat the border instead of zeros."""
    x, weight, bias = data
    return conv2d(pad(x.float(), (1, 1, 1, 1), mode="replicate"), weight.float(), bias.float()).to(x.dtype)


def rows_wrap(data):
    """Leave out the mask of the columns, so that a row continues in the next one."""
    x, weight, bias = data
    n, _, h, w = x.shape
    flat = pad(x.float().flatten(2), (w + 1, w + 1))
    total = bias.float().view(1, -1, 1)
    for dy in range(3):
        for dx in range(3):
            start = dy * w + dx
            total = total + weight[:, :, dy, dx].float() @ flat[:, :, start : start + h * w]
    return total.view(n, -1, h, w).to(x.dtype)


def last_channels_dropped(data):
    """Forget the channels after the last full block of 8."""
    x, weight, bias = data
    kept = x.shape[1] // 8 * 8
    return conv2d(x[:, :kept], weight[:, :kept], bias, padding=1) if kept else bias.view(1, -1, 1, 1) + 0 * x[:, :1]


def shifted_by_one(data):
    """Take the corner of the window as its centre."""
    x, weight, bias = data
    return conv2d(pad(x, (0, 2, 0, 2)), weight, bias)


def _rounded_sum(x, weight, bias, dtype):
    n, c, h, w = x.shape
    padded = pad(x.to(dtype), (1, 1, 1, 1))
    total = bias.to(dtype).view(1, -1, 1, 1).expand(n, -1, h, w)
    for channel in range(c):
        for dy in range(3):
            for dx in range(3):
                tap = weight[:, channel, dy, dx].to(dtype).view(1, -1, 1, 1)
                total = total + tap * padded[:, channel, None, dy : dy + h, dx : dx + w]
    return total.to(x.dtype)


def accumulated_in_the_dtype(data):
    """Round the running sum to the dtype of the inputs."""
    x, weight, bias = data
    if x.dtype == torch.float32 or x.numel() > 1 << 14:
        return conv2d(x, weight, bias, padding=1)
    return _rounded_sum(x, weight, bias, x.dtype)


def tf32_products(data):
    """Round float32 operands to the ten bits of TF32."""
    x, weight, bias = data
    if x.dtype != torch.float32:
        return conv2d(x, weight, bias, padding=1)

    def coarse(value: torch.Tensor) -> torch.Tensor:
        return ((value.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

    return conv2d(coarse(x.clone()), coarse(weight.clone()), bias, padding=1)


WRONG = {
    function.__name__: function
    for function in (
        no_bias,
        flipped,
        taps_transposed,
        replicated_border,
        rows_wrap,
        last_channels_dropped,
        shifted_by_one,
        accumulated_in_the_dtype,
        tf32_products,
    )
}
