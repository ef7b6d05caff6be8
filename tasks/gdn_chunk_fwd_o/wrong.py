"""Plausible wrong kernels of gdn_chunk_fwd_o, each of which a checking case has to expose."""

from __future__ import annotations

import torch

from tasks.gdn_chunk_fwd_o.reference import CHUNK, by_chunk


def _tf32(x):
    """Round to the ten bits of a TF32 significand."""
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def _decay(gain, diagonal=0):
    later = torch.ones((CHUNK, CHUNK), device=gain.device, dtype=torch.bool).triu(1 + diagonal)
    return (gain - gain.transpose(-1, -2)).masked_fill(later, float("-inf")).exp()


def _outputs(data, decay=_decay, state_gain=torch.exp, state=None, scale=None, cast=lambda x: x):
    q, k, v_new, h, g = data
    queries, keys, values, gain = (by_chunk(x) for x in (q, k, v_new, g[..., None]))
    weights = cast(queries) @ cast(keys).transpose(-1, -2) * decay(gain)
    carried = cast(queries) @ cast(h if state is None else state) * state_gain(gain)
    o = (carried + cast(weights) @ cast(values)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    return o.transpose(2, 3).reshape(v_new.shape)


def no_state(data):
    """Leave out what earlier chunks left behind, which the published inputs do not show."""
    return _outputs(data, state=torch.zeros_like(data[3]))


def state_of_previous_chunk(data):
    """Read the state one chunk too early, none in the first chunk."""
    h = data[3]
    return _outputs(data, state=torch.cat((torch.zeros_like(h[:, :1]), h[:, :-1]), dim=1))


def transposed_state(data):
    """Read the state's memory as [V, K]."""
    h = data[3]
    return _outputs(data, state=h.reshape(*h.shape[:3], h.shape[4], h.shape[3]).transpose(-1, -2))


def state_not_decayed(data):
    """Leave exp(g) out of the state's term."""
    return _outputs(data, state_gain=torch.ones_like)


def tokens_not_decayed(data):
    """Leave exp(g_i - g_j) out of the chunk's own term."""
    return _outputs(data, decay=lambda gain: _decay(torch.zeros_like(gain)))


def only_state(data):
    """Leave out the chunk's own term."""
    return _outputs(data, decay=lambda gain: torch.zeros_like(_decay(gain)))


def strictly_causal(data):
    """Leave out each token's own key."""
    return _outputs(data, decay=lambda gain: _decay(gain, diagonal=-1))


def one_token_ahead(data):
    """Let each token see the following one."""
    return _outputs(data, decay=lambda gain: _decay(gain, diagonal=1))


def masked_by_product(data):
    """Multiply by the mask after the exponential, which overflows above the diagonal for steep gates."""

    def decay(gain):
        return (gain - gain.transpose(-1, -2)).exp() * torch.ones((CHUNK, CHUNK), device=gain.device).tril()

    return _outputs(data, decay=decay)


def split_exponential(data):
    """Form exp(g_i) * exp(-g_j), which overflows for steep gates."""

    def decay(gain):
        product = gain.exp() * (-gain).exp().transpose(-1, -2)
        return product.tril()

    return _outputs(data, decay=decay)


def no_scale(data):
    """Leave K^-0.5 out."""
    return _outputs(data, scale=1.0)


def scaled_by_value_width(data):
    """Scale by V^-0.5."""
    return _outputs(data, scale=data[2].shape[-1] ** -0.5)


def tf32_operands(data):
    """Round the operands of every product to TF32."""
    return _outputs(data, cast=_tf32)


WRONG = {
    function.__name__: function
    for function in (
        no_state,
        state_of_previous_chunk,
        transposed_state,
        state_not_decayed,
        tokens_not_decayed,
        only_state,
        strictly_causal,
        one_token_ahead,
        masked_by_product,
        split_exponential,
        no_scale,
        scaled_by_value_width,
        tf32_operands,
    )
}
