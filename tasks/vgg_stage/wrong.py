"""Plausible wrong kernels of vgg_stage, each of which a checking case has to expose."""

from __future__ import annotations

import torch
from torch.nn.functional import avg_pool2d, conv2d, max_pool2d, pad


def _identity(y):
    return y


def _stage(data, inner=torch.relu, outer=torch.relu, pool=max_pool2d, dtype=torch.float32):
    x, w1, b1, w2, b2 = (value.to(dtype) for value in data)
    y = outer(conv2d(inner(conv2d(x, w1, b1, padding=1)), w2, b2, padding=1))
    return pool(y, 2).half()


def no_inner_activation(data):
    """Leave out the ReLU between the convolutions."""
    return _stage(data, inner=_identity)


def no_last_activation(data):
    """Leave out the last ReLU."""
    return _stage(data, outer=_identity)


def no_bias(data):
    """Leave out both biases."""
    x, w1, b1, w2, b2 = data
    return _stage((x, w1, torch.zeros_like(b1), w2, torch.zeros_like(b2)))


def second_bias_doubled(data):
    """Add the second bias in the convolution and in its epilogue."""
    x, w1, b1, w2, b2 = data
    return _stage((x, w1, b1, w2, 2 * b2))


def mean_pooling(data):
    """Take the mean of each window."""
    return _stage(data, pool=avg_pool2d)


def window_shifted(data):
    """Let every window start one pixel further right."""
    return _stage(data, pool=lambda y, size: max_pool2d(pad(y[..., 1:], (0, 1)), size))


def first_pixel_of_window(data):
    """Take a stride for a pooling."""
    return _stage(data, pool=lambda y, size: y[:, :, : y.shape[2] // 2 * 2 : 2, : y.shape[3] // 2 * 2 : 2])


def window_of_two(data):
    """Pool along the rows and take every second row."""
    return _stage(data, pool=lambda y, size: max_pool2d(y[:, :, : y.shape[2] // 2 * 2 : 2], (1, 2)))


def border_of_biases(data):
    """Pad the second convolution with relu(b1) instead of zero."""
    x, w1, b1, w2, b2 = (value.float() for value in data)
    y = pad(conv2d(x, w1, padding=1), (1, 1, 1, 1)) + b1[:, None, None]
    return max_pool2d(torch.relu(conv2d(torch.relu(y), w2, b2)), 2).half()


def flipped_filters(data):
    """Convolve in the mathematical sense: filters turned by 180 degrees."""
    x, w1, b1, w2, b2 = data
    return _stage((x, w1.flip(2, 3), b1, w2.flip(2, 3), b2))


def low_precision(data):
    """Compute in bfloat16."""
    return _stage(data, dtype=torch.bfloat16)


WRONG = {
    function.__name__: function
    for function in (
        no_inner_activation,
        no_last_activation,
        no_bias,
        second_bias_doubled,
        mean_pooling,
        window_shifted,
        first_pixel_of_window,
        window_of_two,
        border_of_biases,
        flipped_filters,
        low_precision,
    )
}
