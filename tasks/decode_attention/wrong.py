"""Plausible wrong kernels of decode_attention, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def _scores(data) -> torch.Tensor:
    q, k, _, _ = data
    batch, _, kv_heads, dim = k.shape
    return torch.einsum("bhgd,bshd->bhgs", q.float().view(batch, kv_heads, -1, dim), k.float()) * dim**-0.5


def _visible(data, extra: int = 0) -> torch.Tensor:
    _, k, _, lengths = data
    position = torch.arange(k.shape[1], device=k.device)
    return (position[None, :] < lengths[:, None] + extra)[:, None, None, :]


def _attend(data, scores: torch.Tensor, values: torch.Tensor | None = None) -> torch.Tensor:
    v = data[2] if values is None else values
    out = torch.einsum("bhgs,bshd->bhgd", scores.softmax(-1), v.float())
    return out.reshape(data[0].shape).half()


def _masked(data, extra: int = 0) -> torch.Tensor:
    return _scores(data).masked_fill(~_visible(data, extra), float("-inf"))


def no_lengths(data):
    """Attend to the whole cache."""
    return _attend(data, _scores(data))


def one_key_more(data):
    """Attend to the first key behind the length."""
    return _attend(data, _masked(data, 1))


def one_key_less(data):
    """Leave out the newest key, unless it is the only one."""
    visible = _visible(data, -1)
    visible[..., 0] = True
    return _attend(data, _scores(data).masked_fill(~visible, float("-inf")))


def longest_length(data):
    """Use the largest length for the whole batch."""
    q, k, v, lengths = data
    return _attend(data, _masked((q, k, v, lengths.amax().expand_as(lengths))))


def no_scale(data):
    """Leave out the scale of the scores."""
    return _attend(data, _masked(data) * data[0].shape[-1] ** 0.5)


def heads_interleaved(data):
    """Map query head h to key head h modulo the number of key heads."""
    q, k, v, lengths = data
    batch, heads, dim = q.shape
    kv_heads = k.shape[2]
    regrouped = q.view(batch, -1, kv_heads, dim).transpose(1, 2).reshape(q.shape)
    out = _attend(data, _masked((regrouped, k, v, lengths)))
    return out.view(batch, kv_heads, -1, dim).transpose(1, 2).reshape(batch, heads, dim)


def no_maximum(data):
    """Leave out the maximum, so that exponentials overflow."""
    weight = _scores(data).exp().masked_fill(~_visible(data), 0.0)
    out = torch.einsum("bhgs,bshd->bhgd", weight, data[2].float()) / weight.sum(-1, keepdim=True)
    return out.reshape(data[0].shape).half()


def low_precision(data):
    """Compute with bfloat16 keys and values."""
    q, k, v, lengths = data
    return _attend(data, _masked((q, k.bfloat16(), v, lengths)), v.bfloat16())


def averaged_splits(data):
    """Average two halves of the keys without weighing them."""
    scores = _masked(data)
    half = (scores.shape[-1] + 1) // 2
    first = torch.einsum("bhgs,bshd->bhgd", scores[..., :half].softmax(-1), data[2][:, :half].float())
    second = torch.einsum("bhgs,bshd->bhgd", scores[..., half:].softmax(-1), data[2][:, half:].float())
    out = torch.where(scores[..., half : half + 1].isinf(), first, (first + second) / 2)
    return out.reshape(data[0].shape).half()


WRONG = {
    function.__name__: function
    for function in (
        no_lengths,
        one_key_more,
        one_key_less,
        longest_length,
        no_scale,
        heads_interleaved,
        no_maximum,
        low_precision,
        averaged_splits,
    )
}
