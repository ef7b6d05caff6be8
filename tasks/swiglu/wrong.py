"""Plausible wrong kernels of swiglu, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def _products(data, inner: slice = slice(None)) -> tuple[torch.Tensor, torch.Tensor]:
    x, w_gate, w_up = (value[:, inner].float() for value in data)
    return x @ w_gate.t(), x @ w_up.t()


def swapped(data):
    """Apply the activation to the other product."""
    gate, up = _products(data)
    return (gate * torch.nn.functional.silu(up)).half()


def sigmoid_only(data):
    """Gate with the sigmoid, as GLU does."""
    gate, up = _products(data)
    return (torch.sigmoid(gate) * up).half()


def gelu(data):
    """Gate with GELU, as GEGLU does."""
    gate, up = _products(data)
    return (torch.nn.functional.gelu(gate) * up).half()


def gate_only(data):
    """Leave out the factor up."""
    gate, _ = _products(data)
    return torch.nn.functional.silu(gate).half()


def overflowing_sigmoid(data):
    """Take the sigmoid as exp(g) / (1 + exp(g)), which is NaN for large g."""
    gate, up = _products(data)
    e = gate.exp()
    return (gate * (e / (1.0 + e)) * up).half()


def relu_gate(data):
    """Set negative gates to zero."""
    gate, up = _products(data)
    return (gate.clamp(min=0.0) * torch.sigmoid(gate) * up).half()


def inner_tail_dropped(data):
    """Leave the inner dimension after the last full block of 32 out."""
    gate, up = _products(data, slice(0, max(1, data[0].shape[1] // 32 * 32)))
    return (torch.nn.functional.silu(gate) * up).half()


def last_columns_dropped(data):
    """Leave the hidden columns after the last full block of 16 unwritten."""
    gate, up = _products(data)
    out = torch.nn.functional.silu(gate) * up
    out[:, out.shape[1] // 16 * 16 :] = 0.0
    return out.half()


def low_precision(data):
    """Round the operands to bfloat16."""
    gate, up = _products([value.bfloat16() for value in data])
    return (torch.nn.functional.silu(gate) * up).half()


def partial_sums_rounded(data):
    """Round the running sum to float16 after every 2 products."""
    width = data[0].shape[1]
    gate = up = torch.zeros((), device=data[0].device)
    for start in range(0, width, 2):
        more_gate, more_up = _products(data, slice(start, start + 2))
        gate, up = (gate + more_gate).half().float(), (up + more_up).half().float()
    return (torch.nn.functional.silu(gate) * up).half()


WRONG = {
    function.__name__: function
    for function in (
        swapped,
        sigmoid_only,
        gelu,
        gate_only,
        overflowing_sigmoid,
        relu_gate,
        inner_tail_dropped,
        last_columns_dropped,
        low_precision,
        partial_sums_rounded,
    )
}
