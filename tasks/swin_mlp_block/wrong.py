"""Plausible wrong kernels of swin_mlp_block, each of which a checking case has to expose."""

from __future__ import annotations

import torch
from torch.nn.functional import gelu, layer_norm, linear

EPS = 1e-5


def _block(
    data,
    eps=EPS,
    activation=gelu,
    transposed=False,
    swapped=False,
    striped=False,
    strided_heads=False,
    first_residual=True,
    norm_of_input=False,
    dtype=torch.float32,
):
    x, gamma1, beta1, w_mix, b_mix, gamma2, beta2, w_up, b_up, w_down, b_down = (value.to(dtype) for value in data)
    n, h, w, c = x.shape
    p = w_mix.shape[1]
    heads, side = w_mix.shape[0] // p, round(p**0.5)
    mix = w_mix.view(heads, p, p)
    if transposed:
        mix = mix.transpose(1, 2)
    y = layer_norm(x, (c,), gamma1, beta1, eps)
    rows = (side, h // side) if striped else (h // side, side)
    columns = (side, w // side) if striped else (w // side, side)
    y = y.view(n, *rows, *columns, *((c // heads, heads) if strided_heads else (heads, c // heads)))
    order = [0, 1, 3, 5, 2, 4, 6]
    if striped:
        order = [0, 2, 4, 5, 1, 3, 6]
    if strided_heads:
        order[3], order[6] = 6, 5
    if swapped:
        order[4], order[5] = order[5], order[4]
    y = y.permute(order)
    shape = y.shape
    y = mix @ y.reshape(-1, heads, p, c // heads) + b_mix.view(heads, p, 1)
    y = y.view(shape).permute([order.index(axis) for axis in range(7)]).reshape(n, h, w, c)
    hidden = x + y if first_residual else y
    y = layer_norm(x if norm_of_input else hidden, (c,), gamma2, beta2, eps)
    return (hidden + linear(activation(linear(y, w_up, b_up)), w_down, b_down)).half()


def no_first_residual(data):
    """Leave out the residual around the spatial MLP."""
    return _block(data, first_residual=False)


def norm_of_input(data):
    """Let the channel MLP start from the block's input."""
    return _block(data, norm_of_input=True)


def transposed_mixing(data):
    """Mix the positions of a window with the transposed matrices."""
    return _block(data, transposed=True)


def window_by_columns(data):
    """Number the positions of a window by columns."""
    return _block(data, swapped=True)


def dilated_windows(data):
    """Form windows of tokens that lie far apart."""
    return _block(data, striped=True)


def strided_heads(data):
    """Give every head each heads-th channel."""
    return _block(data, strided_heads=True)


def shared_heads(data):
    """Use the matrix of the first head for all heads."""
    p = data[3].shape[1]
    return _block((*data[:3], data[3][:p].repeat(len(data[3]) // p, 1, 1), *data[4:]))


def no_mixing_bias(data):
    """Leave out the bias of the spatial MLP."""
    return _block((*data[:4], torch.zeros_like(data[4]), *data[5:]))


def sigmoid_activation(data):
    """Take a cheap sigmoid form of GELU."""
    return _block(data, activation=lambda y: y * torch.sigmoid(1.702 * y))


def other_epsilon(data):
    """Take an epsilon of 1e-6."""
    return _block(data, eps=1e-6)


def no_norm_affine(data):
    """Leave out gamma and beta of the second norm."""
    return _block((*data[:5], torch.ones_like(data[5]), torch.zeros_like(data[6]), *data[7:]))


def low_precision(data):
    """Compute in bfloat16."""
    return _block(data, dtype=torch.bfloat16)


WRONG = {
    function.__name__: function
    for function in (
        no_first_residual,
        norm_of_input,
        transposed_mixing,
        window_by_columns,
        dilated_windows,
        strided_heads,
        shared_heads,
        no_mixing_bias,
        sigmoid_activation,
        other_epsilon,
        no_norm_affine,
        low_precision,
    )
}
