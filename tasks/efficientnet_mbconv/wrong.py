"""Plausible wrong kernels of efficientnet_mbconv, each of which a checking case has to expose."""

from __future__ import annotations

import torch
from torch.nn.functional import conv2d, gelu, hardswish, pad, silu

EPS = 1e-3


def _norm(y, bn, eps=EPS):
    gamma, beta, mean, variance = bn[:, :, None, None]
    return (y - mean) * torch.rsqrt(variance + eps) * gamma + beta


def _block(
    data, eps=EPS, first=silu, second=silu, last=lambda y: y, use_residual=True, shift=0, border=False, dtype=None
):
    x, w_expand, bn1, w_depth, bn2, w_project, bn3 = (value.to(dtype or torch.float32) for value in data)
    e, _, side, _ = w_depth.shape
    residual = w_project.shape[0] == x.shape[1]
    y = conv2d(x, w_expand)
    margin = (side // 2,) * 4
    y = first(_norm(pad(y, margin), bn1, eps)) if border else pad(first(_norm(y, bn1, eps)), margin)
    if not residual:
        y = torch.roll(y, (-shift, -shift), (2, 3))
    y = second(_norm(conv2d(y, w_depth, stride=1 if residual else 2, groups=e), bn2, eps))
    y = last(_norm(conv2d(y, w_project), bn3, eps))
    return (y + x if residual and use_residual else y).half()


def no_residual(data):
    """Leave out the residual."""
    return _block(data, use_residual=False)


def no_depthwise_activation(data):
    """Leave out SiLU after the depthwise convolution."""
    return _block(data, second=lambda y: y)


def last_activation(data):
    """Apply SiLU after the projection, too."""
    return _block(data, last=silu)


def other_activation(data):
    """Take GELU for SiLU."""
    return _block(data, first=gelu, second=gelu)


def piecewise_activation(data):
    """Take hard swish for SiLU."""
    return _block(data, first=hardswish, second=hardswish)


def other_epsilon(data):
    """Take the usual epsilon of 1e-5."""
    return _block(data, eps=1e-5)


def stride_shifted(data):
    """Let the strided depthwise convolution start at the second pixel."""
    return _block(data, shift=1)


def border_of_shifted_zeros(data):
    """Pad the depthwise convolution with silu(bn1(0)) instead of zero."""
    return _block(data, border=True)


def shared_filter(data):
    """Use the first depthwise filter for all channels."""
    return _block((*data[:3], data[3][:1].expand_as(data[3]), *data[4:]))


def variance_as_deviation(data):
    """Take the variance for a standard deviation."""

    def squared(bn):
        return torch.stack((bn[0], bn[1], bn[2], bn[3].square()))

    return _block(tuple(squared(value) if value.ndim == 2 else value for value in data))


def low_precision(data):
    """Compute in bfloat16."""
    return _block(data, dtype=torch.bfloat16)


WRONG = {
    function.__name__: function
    for function in (
        no_residual,
        no_depthwise_activation,
        last_activation,
        other_activation,
        piecewise_activation,
        other_epsilon,
        stride_shifted,
        border_of_shifted_zeros,
        shared_filter,
        variance_as_deviation,
        low_precision,
    )
}
