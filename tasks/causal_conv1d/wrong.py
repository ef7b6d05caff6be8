"""Plausible wrong kernels of causal_conv1d, each of which a checking case has to expose."""

from __future__ import annotations

import torch
from torch.nn.functional import pad, silu


def _taps(x: torch.Tensor, weight: torch.Tensor, left: int, mode: str = "constant") -> torch.Tensor:
    length, width = x.shape[-1], weight.shape[1]
    padded = pad(x.float(), (left, width - 1 - left), mode=mode)
    return sum(weight[:, k, None].float() * padded[..., k : k + length] for k in range(width))


def centred(data):
    """Pad on both sides, so that the future leaks in."""
    x, weight, bias = data
    return silu(_taps(x, weight, 1) + bias[:, None].float()).to(x.dtype)


def reversed_taps(data):
    """Flip the weights, as a mathematical convolution does."""
    x, weight, bias = data
    return silu(_taps(x, weight.flip(1), 3) + bias[:, None].float()).to(x.dtype)


def no_bias(data):
    """Leave out the bias."""
    x, weight, _ = data
    return silu(_taps(x, weight, 3)).to(x.dtype)


def no_activation(data):
    """Leave out SiLU."""
    x, weight, bias = data
    return (_taps(x, weight, 3) + bias[:, None].float()).to(x.dtype)


def gelu_activation(data):
    """Use GELU."""
    x, weight, bias = data
    return torch.nn.functional.gelu(_taps(x, weight, 3) + bias[:, None].float()).to(x.dtype)


def replicated_start(data):
    """Repeat the first value before the start."""
    x, weight, bias = data
    return silu(_taps(x, weight, 3, "replicate") + bias[:, None].float()).to(x.dtype)


def rows_run_together(data):
    """Read the end of the sequence before, as a flat index without a mask does."""
    x, weight, bias = data
    flat = pad(x.float().reshape(-1), (3, 0))
    z = sum(weight[:, k, None].float() * flat[k : k + x.numel()].view(x.shape) for k in range(4))
    return silu(z + bias[:, None].float()).to(x.dtype)


def width_three(data):
    """Forget the oldest position."""
    x, weight, bias = data
    kept = weight.clone()
    kept[:, 0] = 0.0
    return silu(_taps(x, kept, 3) + bias[:, None].float()).to(x.dtype)


def overflowing_exponential(data):
    """Compute z * exp(z) / (1 + exp(z)), which is NaN for large z."""
    x, weight, bias = data
    z = _taps(x, weight, 3) + bias[:, None].float()
    e = z.exp()
    return (z * e / (1.0 + e)).to(x.dtype)


def low_precision(data):
    """Compute in bfloat16 with every product rounded."""
    x, weight, bias = data
    padded = pad(x.bfloat16(), (3, 0))
    z = bias[:, None].bfloat16().expand_as(x)
    for k in range(4):
        z = z + weight[:, k, None].bfloat16() * padded[..., k : k + x.shape[-1]]
    return silu(z).to(x.dtype)


WRONG = {
    function.__name__: function
    for function in (
        centred,
        reversed_taps,
        no_bias,
        no_activation,
        gelu_activation,
        replicated_start,
        rows_run_together,
        width_three,
        overflowing_exponential,
        low_precision,
    )
}
