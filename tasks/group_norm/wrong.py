"""Plausible wrong kernels of group_norm, each of which a checking case has to expose."""

from __future__ import annotations

import torch

GROUPS = 32
EPS = 1e-5


def _affine(x: torch.Tensor, h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    shape = (1, -1, 1, 1)
    return (h.view(x.shape) * weight.float().view(shape) + bias.float().view(shape)).to(x.dtype)


def _normal(x: torch.Tensor, eps: float = EPS, correction: int = 0) -> torch.Tensor:
    h = x.float().reshape(x.shape[0] * GROUPS, -1)
    variance, mean = torch.var_mean(h, -1, correction=correction, keepdim=True)
    return (h - mean) * (variance + eps).rsqrt()


def no_epsilon(data):
    """Leave out epsilon."""
    x, weight, bias = data
    return _affine(x, _normal(x, eps=1e-30), weight, bias)


def small_epsilon(data):
    """Use an epsilon of 1e-6."""
    x, weight, bias = data
    return _affine(x, _normal(x, eps=1e-6), weight, bias)


def unbiased_variance(data):
    """Divide the squares by m - 1."""
    x, weight, bias = data
    return _affine(x, _normal(x, correction=1), weight, bias)


def no_centring(data):
    """Leave out the mean."""
    x, weight, bias = data
    h = x.float().reshape(x.shape[0] * GROUPS, -1)
    return _affine(x, h * (h.square().mean(-1, keepdim=True) + EPS).rsqrt(), weight, bias)


def no_bias(data):
    """Leave out the bias."""
    x, weight, bias = data
    return _affine(x, _normal(x), weight, torch.zeros_like(bias))


def no_weight(data):
    """Leave out the weight."""
    x, weight, bias = data
    return _affine(x, _normal(x), torch.ones_like(weight), bias)


def group_parameters(data):
    """Use the parameters of the first channel for its whole group."""
    x, weight, bias = data
    per_group = x.shape[1] // GROUPS
    first = torch.arange(x.shape[1], device=x.device) // per_group * per_group
    return _affine(x, _normal(x), weight[first], bias[first])


def instance_statistics(data):
    """Normalise each channel by itself."""
    x, weight, bias = data
    h = x.float()
    variance, mean = torch.var_mean(h, (2, 3), correction=0, keepdim=True)
    return _affine(x, (h - mean) * (variance + EPS).rsqrt(), weight, bias)


def layer_statistics(data):
    """Normalise over all channels at once."""
    x, weight, bias = data
    return torch.nn.functional.group_norm(x.float(), 1, weight.float(), bias.float(), EPS).to(x.dtype)


def interleaved_groups(data):
    """Put every 32nd channel into a group."""
    x, weight, bias = data
    per_group = x.shape[1] // GROUPS
    order = torch.arange(x.shape[1], device=x.device).view(per_group, GROUPS).t().reshape(-1)
    h = torch.empty_like(x, dtype=torch.float32)
    h[:, order] = _normal(x[:, order]).view(x.shape)
    return _affine(x, h, weight, bias)


def tail_dropped(data):
    """Leave the elements of a group after the last full block of 16 out of the statistics."""
    x, weight, bias = data
    h = x.float().reshape(x.shape[0] * GROUPS, -1)
    end = max(1, h.shape[1] // 16 * 16)
    variance, mean = torch.var_mean(h[:, :end], -1, correction=0, keepdim=True)
    return _affine(x, (h - mean) * (variance + EPS).rsqrt(), weight, bias)


def low_precision(data):
    """Round the statistics to bfloat16."""
    x, weight, bias = data
    h = x.float().reshape(x.shape[0] * GROUPS, -1)
    variance, mean = torch.var_mean(h, -1, correction=0, keepdim=True)
    rstd = (variance + EPS).rsqrt().bfloat16().float()
    return _affine(x, (h - mean.bfloat16().float()) * rstd, weight, bias)


WRONG = {
    function.__name__: function
    for function in (
        no_epsilon,
        small_epsilon,
        unbiased_variance,
        no_centring,
        no_bias,
        no_weight,
        group_parameters,
        instance_statistics,
        layer_statistics,
        interleaved_groups,
        tail_dropped,
        low_precision,
    )
}
