"""Plausible wrong kernels of causal_attention, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def _scores(data) -> torch.Tensor:
    q, k, _ = data
    return q.float() @ k.float().transpose(-1, -2) * q.shape[-1] ** -0.5


def _hidden(data, ahead: int = 0) -> torch.Tensor:
    position = torch.arange(data[0].shape[2], device=data[0].device)
    return position[None, :] > position[:, None] + ahead


def _attend(data, scores: torch.Tensor) -> torch.Tensor:
    return (scores.softmax(-1) @ data[2].float()).bfloat16()


def no_mask(data):
    """Attend to all keys."""
    return _attend(data, _scores(data))


def one_key_ahead(data):
    """Attend to the following key too."""
    return _attend(data, _scores(data).masked_fill(_hidden(data, 1), float("-inf")))


def without_itself(data):
    """Leave out the query's own key, except for the first."""
    hidden = _hidden(data, -1)
    hidden[0, 0] = False
    return _attend(data, _scores(data).masked_fill(hidden, float("-inf")))


def block_mask(data):
    """Mask in blocks of 16 only."""
    position = torch.arange(data[0].shape[2], device=data[0].device) // 16
    return _attend(data, _scores(data).masked_fill(position[None, :] > position[:, None], float("-inf")))


def masked_with_zero(data):
    """Set hidden scores to zero rather than to minus infinity."""
    return _attend(data, _scores(data).masked_fill(_hidden(data), 0.0))


def no_scale(data):
    """Leave out the scale of the scores."""
    return _attend(data, (_scores(data) * data[0].shape[-1] ** 0.5).masked_fill(_hidden(data), float("-inf")))


def base_two(data):
    """Use powers of two for the exponentials."""
    return _attend(data, (_scores(data) * 0.6931471805599453).masked_fill(_hidden(data), float("-inf")))


def no_maximum(data):
    """Leave out the row maximum, so that exponentials overflow."""
    weight = _scores(data).exp().masked_fill(_hidden(data), 0.0)
    return (weight @ data[2].float() / weight.sum(-1, keepdim=True)).bfloat16()


def low_precision(data):
    """Round the scores to bfloat16."""
    return _attend(data, _scores(data).bfloat16().float().masked_fill(_hidden(data), float("-inf")))


def not_rescaled(data):
    """Never rescale the running output when a later block of 32 keys has a larger maximum."""
    scores = _scores(data).masked_fill(_hidden(data), float("-inf"))
    values = data[2].float()
    peak = torch.full_like(scores[..., :1], float("-inf"))
    total = torch.zeros_like(peak)
    out = torch.zeros_like(values)
    for start in range(0, scores.shape[-1], 32):
        block = scores[..., start : start + 32]
        peak = torch.maximum(peak, block.amax(-1, keepdim=True))
        weight = torch.exp(block - peak)
        total += weight.sum(-1, keepdim=True)
        out += weight @ values[..., start : start + 32, :]
    return (out / total).bfloat16()


def shared_head(data):
    """Read the values of the first head for all heads."""
    q, k, v = data
    values = v[:, :1].expand_as(v)
    return _attend((q, k, values), _scores(data).masked_fill(_hidden(data), float("-inf")))


WRONG = {
    function.__name__: function
    for function in (
        no_mask,
        one_key_ahead,
        without_itself,
        block_mask,
        masked_with_zero,
        no_scale,
        base_two,
        no_maximum,
        low_precision,
        not_rescaled,
        shared_head,
    )
}
