"""Plausible wrong kernels of resnet_basic_block, each of which a checking case has to expose."""

from __future__ import annotations

import torch
from torch.nn.functional import conv2d

EPS = 1e-5


def _norm(y, bn, eps=EPS):
    gamma, beta, mean, variance = bn[:, :, None, None]
    return (y - mean) * torch.rsqrt(variance + eps) * gamma + beta


def _block(data, eps=EPS, inner=torch.relu, outer=torch.relu, use_shortcut=True, shift=0, dtype=torch.float32):
    x, w1, bn1, w2, bn2, *down = (value.to(dtype) for value in data)
    stride = 2 if down else 1
    source = x
    if shift and down:
        source = torch.roll(x, (-shift, -shift), (2, 3))
    y = inner(_norm(conv2d(x, w1, stride=stride, padding=1), bn1, eps))
    y = _norm(conv2d(y, w2, padding=1), bn2, eps)
    if use_shortcut:
        y = y + (_norm(conv2d(source, down[0], stride=stride), down[1], eps) if down else x)
    return outer(y).half()


def no_shortcut(data):
    """Leave out the shortcut."""
    return _block(data, use_shortcut=False)


def no_inner_activation(data):
    """Leave out the ReLU between the convolutions."""
    return _block(data, inner=lambda y: y)


def no_last_activation(data):
    """Leave out the last ReLU."""
    return _block(data, outer=lambda y: y)


def no_epsilon(data):
    """Leave out epsilon."""
    return _block(data, eps=0.0)


def shortcut_shifted(data):
    """Let the strided shortcut start at the second pixel."""
    return _block(data, shift=1)


def variance_as_deviation(data):
    """Take the variance for a standard deviation."""

    def squared(bn):
        return torch.stack((bn[0], bn[1], bn[2], bn[3].square()))

    x, w1, bn1, w2, bn2, *down = data
    return _block((x, w1, squared(bn1), w2, squared(bn2), *([down[0], squared(down[1])] if down else [])))


def batch_statistics(data):
    """Normalise with the statistics of the batch, as in training."""
    x, w1, bn1, w2, bn2, *down = (value.float() for value in data)
    stride = 2 if down else 1

    def norm(y, bn):
        mean, variance = y.mean((0, 2, 3)), y.var((0, 2, 3), unbiased=False)
        return _norm(y, torch.stack((bn[0], bn[1], mean, variance)))

    y = norm(conv2d(torch.relu(norm(conv2d(x, w1, stride=stride, padding=1), bn1)), w2, padding=1), bn2)
    return torch.relu(y + (norm(conv2d(x, down[0], stride=stride), down[1]) if down else x)).half()


def border_of_shifted_zeros(data):
    """Pad the second convolution with relu(bn1(0)) instead of zero."""
    x, w1, bn1, w2, bn2, *down = (value.float() for value in data)
    stride = 2 if down else 1
    y = torch.nn.functional.pad(conv2d(x, w1, stride=stride, padding=1), (1, 1, 1, 1))
    y = _norm(conv2d(torch.relu(_norm(y, bn1)), w2), bn2)
    return torch.relu(y + (_norm(conv2d(x, down[0], stride=stride), down[1]) if down else x)).half()


def low_precision(data):
    """Compute in bfloat16."""
    return _block(data, dtype=torch.bfloat16)


WRONG = {
    function.__name__: function
    for function in (
        no_shortcut,
        no_inner_activation,
        no_last_activation,
        no_epsilon,
        shortcut_shifted,
        variance_as_deviation,
        batch_statistics,
        border_of_shifted_zeros,
        low_precision,
    )
}
