"""Plausible wrong kernels of gdn_chunk_fwd_h, each of which a checking case has to expose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tasks.gdn_chunk_fwd_h.reference import by_chunk

Step = Callable[..., Any]


def _tf32(x):
    """Round to the ten bits of a TF32 significand."""
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def _exact(state, k, new, gain):
    last = gain[..., -1:, :]
    return state * last.exp() + k.transpose(-1, -2) @ (new * (last - gain).exp())


def _states(data, step: Step = _exact, cast: Step = lambda x: x, before: bool = True):
    k, w, u, g = data
    keys, erasers, values, gains = (by_chunk(x) for x in (k, w, u, g[..., None]))
    chunks, batch, heads, _, key = keys.shape
    state = torch.zeros((batch, heads, key, u.shape[-1]), device=k.device, dtype=k.dtype)
    states, news = [], []
    for c in range(chunks):
        old = state
        new = values[c] - cast(erasers[c]) @ cast(state)
        state = step(state, cast(keys[c]), cast(new), gains[c])
        states.append(old if before else state)
        news.append(new)
    return torch.stack(states, dim=1), torch.stack(news, dim=1).transpose(2, 3).reshape(u.shape)


def no_recurrence(data):
    """Start every chunk from the previous chunk's own contribution, as if the gate had closed."""

    def step(state, k, new, gain):
        return k.transpose(-1, -2) @ (new * (gain[..., -1:, :] - gain).exp())

    return _states(data, step)


def nothing_erased(data):
    """Return u as v_new, states from u alone."""
    k, w, u, g = data
    return _states((k, torch.zeros_like(w), u, g))


def last_token_only(data):
    """Keep only what passes the published inputs: v_new = u and the last token's outer product."""
    k, _, u, _ = data
    keys, values = by_chunk(k)[..., -1:, :], by_chunk(u)[..., -1:, :]
    outer = (keys.transpose(-1, -2) @ values).transpose(0, 1)
    return torch.cat((torch.zeros_like(outer[:, :1]), outer[:, :-1]), dim=1), u.clone()


def state_not_decayed(data):
    """Leave exp(g_last) out."""

    def step(state, k, new, gain):
        return state + k.transpose(-1, -2) @ (new * (gain[..., -1:, :] - gain).exp())

    return _states(data, step)


def token_not_decayed(data):
    """Leave exp(g_last - g) out."""

    def step(state, k, new, gain):
        return state * gain[..., -1:, :].exp() + k.transpose(-1, -2) @ new

    return _states(data, step)


def absolute_gate(data):
    """Scale the tokens by exp(g) rather than by exp(g_last - g)."""

    def step(state, k, new, gain):
        return state * gain[..., -1:, :].exp() + k.transpose(-1, -2) @ (new * gain.exp())

    return _states(data, step)


def split_exponential(data):
    """Form exp(g_last) * exp(-g), which overflows for steep gates."""

    def step(state, k, new, gain):
        last = gain[..., -1:, :].exp()
        return state * last + k.transpose(-1, -2) @ (new * (last * (-gain).exp()))

    return _states(data, step)


def state_after_chunk(data):
    """Store the state after each chunk rather than before it."""
    return _states(data, before=False)


def tf32_operands(data):
    """Round the operands of every product to TF32."""
    return _states(data, cast=_tf32)


WRONG = {
    function.__name__: function
    for function in (
        no_recurrence,
        nothing_erased,
        last_token_only,
        state_not_decayed,
        token_not_decayed,
        absolute_gate,
        split_exponential,
        state_after_chunk,
        tf32_operands,
    )
}
