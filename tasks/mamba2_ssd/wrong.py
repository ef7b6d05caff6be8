"""Plausible wrong kernels of mamba2_ssd, each of which a checking case has to expose."""

from __future__ import annotations

import torch

from tasks.mamba2_ssd.reference import by_chunk, decay_matrix


def _chunks(data, *, decay=decay_matrix, carry=None, add=None, read=torch.exp, cast=lambda x: x):
    x, a, b, c = data
    values, inputs, outputs = (by_chunk(value) for value in (x, b, c))
    gain = by_chunk(a[..., None])[..., 0].cumsum(-1)
    last = gain[..., -1:]
    added = inputs * (last - gain if add is None else add(last, gain)).exp()[..., None]
    state = torch.zeros_like(inputs[:, 0].transpose(-1, -2) @ values[:, 0])
    y = torch.empty_like(x)
    for i, out in enumerate(by_chunk(y).unbind(1)):
        weights = cast(outputs[:, i]) @ cast(inputs[:, i]).transpose(-1, -2) * decay(gain[:, i])
        out.copy_(cast(weights) @ cast(values[:, i]))
        out += cast(outputs[:, i]) @ cast(state) * read(gain[:, i])[..., None]
        kept = (last[:, i].exp() if carry is None else carry(last[:, i]))[..., None]
        state = state * kept + cast(added[:, i]).transpose(-1, -2) @ cast(values[:, i])
    return y


def no_state(data):
    """Start every chunk from nothing."""
    return _chunks(data, read=torch.zeros_like)


def previous_chunk_only(data):
    """Carry over the previous chunk alone."""
    return _chunks(data, carry=torch.zeros_like)


def state_not_decayed(data):
    """Add up the chunks' states without decay."""
    return _chunks(data, carry=torch.ones_like)


def state_read_undecayed(data):
    """Read the state without the decay since the chunk began."""
    return _chunks(data, read=torch.ones_like)


def absolute_decay(data):
    """Decay what enters the state from the chunk's start rather than to its end."""
    return _chunks(data, add=lambda last, gain: gain)


def not_causal(data):
    """Let tokens see later ones of their chunk."""
    return _chunks(data, decay=lambda gain: (gain[..., :, None] - gain[..., None, :]).clamp(max=0.0).exp())


def strictly_causal(data):
    """Leave out each token's own contribution."""
    return _chunks(data, decay=lambda gain: decay_matrix(gain).tril(-1))


def no_decay_inside(data):
    """Leave the decay within a chunk out."""
    return _chunks(data, decay=lambda gain: decay_matrix(torch.zeros_like(gain)))


def own_decay_counted(data):
    """Decay each token by its own factor as well."""
    x, a, b, c = data
    return _chunks((x * a.exp()[..., None], a, b, c))


def split_exponential(data):
    """Form exp(gain_i) * exp(-gain_j), which overflows for steep decays."""
    return _chunks(data, decay=lambda gain: (gain.exp()[..., None] * (-gain).exp()[..., None, :]).tril())


def exchanged(data):
    """Exchange b and c."""
    x, a, b, c = data
    return _chunks((x, a, c, b))


def first_head_decay(data):
    """Use the first head's decay for every head."""
    x, a, b, c = data
    return _chunks((x, a[..., :1].expand_as(a).contiguous(), b, c))


def bfloat16_operands(data):
    """Round the factors of every product to bfloat16."""
    return _chunks(data, cast=lambda value: value.bfloat16().float())


WRONG = {
    function.__name__: function
    for function in (
        no_state,
        previous_chunk_only,
        state_not_decayed,
        state_read_undecayed,
        absolute_decay,
        not_causal,
        strictly_causal,
        no_decay_inside,
        own_decay_counted,
        split_exponential,
        exchanged,
        first_head_decay,
        bfloat16_operands,
    )
}
