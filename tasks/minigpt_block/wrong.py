"""Plausible wrong kernels of minigpt_block, each of which a checking case has to expose."""

from __future__ import annotations

import torch
from torch.nn.functional import gelu, layer_norm, linear

NAMES = (
    "x",
    "n1_w",
    "n1_b",
    "w_qkv",
    "b_qkv",
    "w_proj",
    "b_proj",
    "n2_w",
    "n2_b",
    "w_up",
    "b_up",
    "w_down",
    "b_down",
)


def _block(
    data, *, masked: bool = True, eps: float = 1e-5, scale: bool = True, activation=None, **changes: torch.Tensor
) -> torch.Tensor:
    p = {name: value.float() for name, value in zip(NAMES, data, strict=True)} | changes
    x = p["x"]
    batch, length, width = x.shape
    dim = p["b_qkv"].shape[2]
    h = layer_norm(x, (width,), p["n1_w"], p["n1_b"], eps)
    q, k, v = torch.einsum("btc,phdc->pbhtd", h, p["w_qkv"]) + p["b_qkv"][:, None, :, None, :]
    scores = q @ k.transpose(-2, -1) * (dim**-0.5 if scale else 1.0)
    if masked:
        hidden = torch.ones((length, length), device=x.device, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
    x = x + linear(y, p["w_proj"], p["b_proj"])
    h = layer_norm(x, (width,), p["n2_w"], p["n2_b"], eps)
    h = linear(h, p["w_up"], p["b_up"])
    h = gelu(h, approximate="tanh") if activation is None else activation(h)
    return (x + linear(h, p["w_down"], p["b_down"])).bfloat16()


def no_mask(data):
    """Attend to later positions too."""
    return _block(data, masked=False)


def no_scale(data):
    """Leave out the scale of the scores."""
    return _block(data, scale=False)


def no_first_norm_bias(data):
    """Leave out the bias of the first norm."""
    return _block(data, n1_b=torch.zeros_like(data[2]).float())


def no_second_norm_weight(data):
    """Leave out the weight of the second norm."""
    return _block(data, n2_w=torch.ones_like(data[7]).float())


def no_attention_bias(data):
    """Leave out the bias of queries, keys and values."""
    return _block(data, b_qkv=torch.zeros_like(data[4]).float())


def no_projection_bias(data):
    """Leave out the bias of the output projection."""
    return _block(data, b_proj=torch.zeros_like(data[6]).float())


def no_up_bias(data):
    """Leave out the bias before the activation."""
    return _block(data, b_up=torch.zeros_like(data[10]).float())


def no_down_bias(data):
    """Leave out the last bias."""
    return _block(data, b_down=torch.zeros_like(data[12]).float())


def relu(data):
    """Use ReLU."""
    return _block(data, activation=torch.relu)


def large_epsilon(data):
    """Use an epsilon of 1e-1 in both norms."""
    return _block(data, eps=1e-1)


def first_residual_dropped(data):
    """Add the second branch to the attention's output only."""
    x = data[0].float()
    return (_block(data).float() - x).bfloat16()


def second_residual_from_input(data):
    """Add the second branch to the block's input."""
    zero = torch.zeros_like(data[11]).float()
    middle = _block(data, w_down=zero, b_down=torch.zeros_like(data[12]).float()).float()
    return (_block(data).float() - middle + data[0].float()).bfloat16()


def post_norm_input(data):
    """Feed the attention with x that was not normalised."""
    x = data[0].float()
    flat = x / x.std(-1, keepdim=True, correction=0)
    return _block((flat.bfloat16(), *data[1:]), n1_w=torch.ones_like(data[1]).float())


WRONG = {
    function.__name__: function
    for function in (
        no_mask,
        no_scale,
        no_first_norm_bias,
        no_second_norm_weight,
        no_attention_bias,
        no_projection_bias,
        no_up_bias,
        no_down_bias,
        relu,
        large_epsilon,
        first_residual_dropped,
        second_residual_from_input,
        post_norm_input,
    )
}
