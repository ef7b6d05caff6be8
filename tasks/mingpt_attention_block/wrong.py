"""Plausible wrong kernels of mingpt_attention_block, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def _project(data) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x, w_qkv, b_qkv, _, _ = data
    q, k, v = torch.einsum("btc,phdc->pbhtd", x, w_qkv) + b_qkv[:, None, :, None, :]
    return q, k, v


def _hidden(length: int, device: torch.device, ahead: int = 0) -> torch.Tensor:
    return torch.ones((length, length), device=device, dtype=torch.bool).triu(1 + ahead)


def _attend(q, k, v, scale: float | None = None, ahead: int = 0) -> torch.Tensor:
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    return scores.masked_fill(_hidden(q.shape[2], q.device, ahead), float("-inf")).softmax(-1) @ v


def _finish(data, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(y.transpose(1, 2).reshape(data[0].shape), data[3], data[4])


def no_mask(data):
    """Attend to later positions too."""
    q, k, v = _project(data)
    return _finish(data, _attend(q, k, v, ahead=q.shape[2]))


def one_key_ahead(data):
    """Attend to the following position too."""
    return _finish(data, _attend(*_project(data), ahead=1))


def no_scale(data):
    """Leave out the scale of the scores."""
    return _finish(data, _attend(*_project(data), scale=1.0))


def scaled_by_width(data):
    """Scale by the width rather than by the head's dimension."""
    q, k, v = _project(data)
    return _finish(data, _attend(q, k, v, scale=(2 * data[0].shape[2]) ** -0.5))


def no_input_bias(data):
    """Leave out the bias of the first projection."""
    x, w_qkv, b_qkv, w_proj, b_proj = data
    return _finish(data, _attend(*_project((x, w_qkv, torch.zeros_like(b_qkv), w_proj, b_proj))))


def no_query_bias(data):
    """Leave out the bias of the queries only."""
    x, w_qkv, b_qkv, w_proj, b_proj = data
    bias = b_qkv.clone()
    bias[0] = 0.0
    return _finish(data, _attend(*_project((x, w_qkv, bias, w_proj, b_proj))))


def no_output_bias(data):
    """Leave out the bias of the output projection."""
    return _finish((*data[:4], torch.zeros_like(data[4])), _attend(*_project(data)))


def heads_not_interleaved(data):
    """Merge the heads without moving them behind the positions."""
    y = _attend(*_project(data)).reshape(data[0].shape)
    return torch.nn.functional.linear(y, data[3], data[4])


def keys_and_values_swapped(data):
    """Take the second part of the projection for the values."""
    q, k, v = _project(data)
    return _finish(data, _attend(q, v, k))


def output_transposed(data):
    """Multiply with the untransposed output weight."""
    return _finish((*data[:3], data[3].t(), data[4]), _attend(*_project(data)))


def low_precision(data):
    """Round the factors of every product to bfloat16."""
    x, w_qkv, b_qkv, w_proj, b_proj = data
    q, k, v = _project((x.bfloat16().float(), w_qkv.bfloat16().float(), b_qkv, w_proj, b_proj))
    y = _attend(q.bfloat16().float(), k.bfloat16().float(), v.bfloat16().float())
    return _finish((*data[:3], w_proj.bfloat16().float(), b_proj), y.bfloat16().float())


WRONG = {
    function.__name__: function
    for function in (
        no_mask,
        one_key_ahead,
        no_scale,
        scaled_by_width,
        no_input_bias,
        no_query_bias,
        no_output_bias,
        heads_not_interleaved,
        keys_and_values_swapped,
        output_transposed,
        low_precision,
    )
}
