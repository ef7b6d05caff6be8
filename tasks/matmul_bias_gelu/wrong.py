"""Plausible wrong kernels of matmul_bias_gelu, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def _linear(data) -> torch.Tensor:
    x, weight, bias = data
    return x.float() @ weight.float().t() + bias.float()


def _gelu(z: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(z, approximate="tanh").bfloat16()


def no_bias(data):
    """Leave out the bias."""
    x, weight, bias = data
    return _gelu(_linear((x, weight, torch.zeros_like(bias))))


def bias_after_activation(data):
    """Add the bias to the activated product."""
    x, weight, bias = data
    return (_gelu(_linear((x, weight, torch.zeros_like(bias)))).float() + bias.float()).bfloat16()


def no_activation(data):
    """Leave out GELU."""
    return _linear(data).bfloat16()


def relu(data):
    """Use ReLU."""
    return _linear(data).relu().bfloat16()


def sigmoid_gelu(data):
    """Use the coarse form x sigmoid(1.702 x)."""
    z = _linear(data)
    return (z * torch.sigmoid(1.702 * z)).bfloat16()


def unsaturated_tanh(data):
    """Compute tanh as a quotient of exponentials that overflow."""
    z = _linear(data)
    e = torch.exp(2.0 * 0.7978845608 * (z + 0.044715 * z**3))
    return (0.5 * z * (1.0 + (e - 1.0) / (e + 1.0))).bfloat16()


def k_tail_dropped(data):
    """Leave out the products after the last full block of 32."""
    x, weight, bias = data
    end = x.shape[1] // 32 * 32
    return _gelu(_linear((x[:, :end], weight[:, :end], bias)))


def partial_activation(data):
    """Activate two halves of the sum over k separately."""
    x, weight, bias = data
    half = x.shape[1] // 2
    first = _gelu(_linear((x[:, :half], weight[:, :half], bias)))
    return first + _gelu(_linear((x[:, half:], weight[:, half:], torch.zeros_like(bias))))


def bias_shifted(data):
    """Read the bias of the next column."""
    x, weight, bias = data
    return _gelu(_linear((x, weight, bias.roll(-1))))


WRONG = {
    function.__name__: function
    for function in (
        no_bias,
        bias_after_activation,
        no_activation,
        relu,
        sigmoid_gelu,
        unsaturated_tanh,
        k_tail_dropped,
        partial_activation,
        bias_shifted,
    )
}
