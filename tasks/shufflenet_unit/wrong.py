"""Plausible wrong kernels of shufflenet_unit, each of which a checking case has to expose."""

from __future__ import annotations

import torch
from torch.nn.functional import conv2d, pad

EPS = 1e-5


def _norm(y, bn, eps=EPS):
    gamma, beta, mean, variance = bn[:, :, None, None]
    return (y - mean) * torch.rsqrt(variance + eps) * gamma + beta


def _shuffle(y, groups):
    return y.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2)


def _identity(y, groups=1):
    return y


def _unit(
    data,
    eps=EPS,
    inner=torch.relu,
    middle=_identity,
    outer=torch.relu,
    shuffle=_shuffle,
    late_shuffle=_identity,
    use_residual=True,
    border=False,
    dtype=torch.float32,
):
    x, w1, bn1, w_depth, bn2, w2, bn3 = (value.to(dtype) for value in data)
    groups = x.shape[1] // w1.shape[1]
    y = conv2d(x, w1, groups=groups)
    y = inner(_norm(pad(y, (1, 1, 1, 1)), bn1, eps)) if border else pad(inner(_norm(y, bn1, eps)), (1, 1, 1, 1))
    y = middle(_norm(conv2d(shuffle(y, groups), w_depth, groups=y.shape[1]), bn2, eps))
    y = _norm(conv2d(late_shuffle(y, groups), w2, groups=groups), bn3, eps)
    return outer(y + x if use_residual else y).half()


def no_shuffle(data):
    """Leave out the shuffle."""
    return _unit(data, shuffle=_identity)


def inverse_shuffle(data):
    """Shuffle in the other direction."""
    return _unit(data, shuffle=lambda y, groups: _shuffle(y, y.shape[1] // groups))


def shuffle_after_depthwise(data):
    """Shuffle after the depthwise convolution, whose filters then meet other channels."""
    return _unit(data, shuffle=_identity, late_shuffle=_shuffle)


def no_residual(data):
    """Leave out the residual."""
    return _unit(data, use_residual=False)


def no_inner_activation(data):
    """Leave out the ReLU after the first convolution."""
    return _unit(data, inner=_identity)


def depthwise_activation(data):
    """Apply ReLU after the depthwise convolution, too."""
    return _unit(data, middle=torch.relu)


def no_last_activation(data):
    """Leave out the last ReLU."""
    return _unit(data, outer=_identity)


def no_epsilon(data):
    """Leave out epsilon."""
    return _unit(data, eps=0.0)


def border_of_shifted_zeros(data):
    """Pad the depthwise convolution with relu(bn1(0)) instead of zero."""
    return _unit(data, border=True)


def groups_of_one_filter(data):
    """Use the filters of the first group for all groups of the last convolution."""
    x, w1, bn1, w_depth, bn2, w2, bn3 = data
    groups = x.shape[1] // w1.shape[1]
    return _unit((x, w1, bn1, w_depth, bn2, w2[: len(w2) // groups].repeat(groups, 1, 1, 1), bn3))


def low_precision(data):
    """Compute in bfloat16."""
    return _unit(data, dtype=torch.bfloat16)


WRONG = {
    function.__name__: function
    for function in (
        no_shuffle,
        inverse_shuffle,
        shuffle_after_depthwise,
        no_residual,
        no_inner_activation,
        depthwise_activation,
        no_last_activation,
        no_epsilon,
        border_of_shifted_zeros,
        groups_of_one_filter,
        low_precision,
    )
}
