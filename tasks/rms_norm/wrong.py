"""Plausible wrong kernels of rms_norm, each of which a checking case has to expose."""

from __future__ import annotations

import torch

EPS = 1e-6


def _scale(h: torch.Tensor, n: int) -> torch.Tensor:
    return torch.rsqrt(h.square().sum(-1, keepdim=True) / n + EPS)


def no_epsilon(data):
    """Leave out epsilon."""
    x, weight = data
    h = x.float()
    return (h * h.square().mean(-1, keepdim=True).rsqrt() * weight.float()).to(x.dtype)


def epsilon_outside_root(data):
    """Add epsilon to the root, not to the mean square."""
    x, weight = data
    h = x.float()
    return (h / (h.square().mean(-1, keepdim=True).sqrt() + EPS) * weight.float()).to(x.dtype)


def layer_norm_epsilon(data):
    """Use the 1e-5 of layer_norm."""
    x, weight = data
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-5)


def mean_subtracted(data):
    """Normalise as layer_norm does."""
    x, weight = data
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, None, EPS)


def padded_mean(data):
    """Divide by the block width rather than by n."""
    x, weight = data
    n = x.shape[-1]
    h = x.float()
    return (h * _scale(h, 1 << (n - 1).bit_length()) * weight.float()).to(x.dtype)


def no_weight(data):
    """Leave out the weight."""
    x, _ = data
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), None, EPS)


def weight_plus_one(data):
    """Take the weight as an offset from one."""
    x, weight = data
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight + 1, EPS)


def low_precision(data):
    """Compute in bfloat16 and cast back."""
    x, weight = data
    low = torch.nn.functional.rms_norm(x.bfloat16(), (x.shape[-1],), weight.bfloat16(), EPS)
    return low.to(x.dtype)


def half_squares(data):
    """Square in float16, where large values overflow."""
    x, weight = data
    h = x.half()
    scale = torch.rsqrt(h.square().float().mean(-1, keepdim=True) + EPS)
    return (x.float() * scale * weight.float()).to(x.dtype)


def block_tail_dropped(data):
    """Leave the columns after the last full block of 128 unwritten."""
    x, weight = data
    n = x.shape[-1]
    out = torch.nn.functional.rms_norm(x, (n,), weight, EPS).clone()
    out[..., n // 128 * 128 :] = 0.0
    return out


def first_rows_only(data):
    """Compute the first 65535 rows: a grid dimension that ran out, or a last block of rows that was forgotten."""
    x, weight = data
    n = x.shape[-1]
    rows = x.reshape(-1, n)
    out = torch.zeros_like(rows)
    kept = min(65535, rows.shape[0] // 4 * 4)
    out[:kept] = torch.nn.functional.rms_norm(rows[:kept], (n,), weight, EPS)
    return out.view(x.shape)


WRONG = {
    function.__name__: function
    for function in (
        no_epsilon,
        epsilon_outside_root,
        layer_norm_epsilon,
        mean_subtracted,
        padded_mean,
        no_weight,
        weight_plus_one,
        low_precision,
        half_squares,
        block_tail_dropped,
        first_rows_only,
    )
}
