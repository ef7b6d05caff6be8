"""State space duality of Mamba-2, chunked: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK = 64
RATE_EXPONENTS = {"mixed": (-9.0, -1.0), "flat": (-18.0, -14.0), "steep": (0.0, 3.0)}


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    batch: int,
    length: int,
    heads: int,
    width: int,
    state: int,
    decay: str = "mixed",
) -> tuple[torch.Tensor, ...]:
    """Return (x [B, T, H, P], a [B, T, H], b [B, T, H, N], c [B, T, H, N]) in float32; P is width, N is state.

    a <= 0 is the logarithm of each token's decay. Its rate differs between heads: over a chunk a falls by about 0.1 to
    25 for `decay` mixed, by less than 0.004 for flat and by 50 to 400 for steep. x is the smaller the longer its head
    remembers, so that all heads have outputs of about the same size.
    """
    at = {"device": generator.device, "generator": generator}
    low, high = RATE_EXPONENTS[decay]
    rate = torch.rand((batch, 1, heads), **at).mul_(high - low).add_(low).exp2_()
    a = torch.randn((batch, length, heads), **at).abs_().mul_(-rate)
    memory = (1.0 / (1.0 - (-1.6 * rate).exp())).clamp_(max=float(length))
    x = torch.randn((batch, length, heads, width), **at).mul_(memory.rsqrt_()[..., None])
    b, c = (torch.randn((batch, length, heads, state), **at) for _ in range(2))
    b.div_(state**0.5)
    return x.to(device), a.to(device), b.to(device), c.to(device)


def reference(data):
    """Return y [B, T, H, P]."""
    x, a, b, c = data
    values, inputs, outputs = (by_chunk(value) for value in (x, b, c))
    gain = by_chunk(a[..., None])[..., 0].cumsum(-1)
    inside = (outputs @ inputs.transpose(-1, -2) * decay_matrix(gain)) @ values
    states = (inputs * (gain[..., -1:] - gain).exp()[..., None]).transpose(-1, -2) @ values
    total = torch.nn.functional.pad(gain[..., -1].transpose(1, 2), (1, 0)).cumsum(-1)
    kept = decay_matrix(total)[..., :-1, 1:].tril(-1)
    carried = torch.einsum("bhzc,bchnp->bzhnp", kept, states)
    y = inside + outputs @ carried * gain.exp()[..., None]
    return y.transpose(2, 3).reshape(x.shape)


def decay_matrix(gain):
    """Return exp(gain_i - gain_j) for j <= i and 0 above the diagonal, over the last dimension."""
    later = torch.ones((gain.shape[-1], gain.shape[-1]), device=gain.device, dtype=torch.bool).triu(1)
    return (gain[..., :, None] - gain[..., None, :]).masked_fill(later, float("-inf")).exp()


def by_chunk(x):
    """View [B, T, H, D] as [B, T / 64, H, 64, D]."""
    batch, length, heads, width = x.shape
    return x.view(batch, length // CHUNK, CHUNK, heads, width).transpose(2, 3)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return y for the given inputs in float64, one chunk after the other."""
    x, a, b, c = data
    batch, length, heads, width = x.shape
    y = torch.empty(x.shape, device=x.device, dtype=torch.float64)
    state = torch.zeros((batch, heads, b.shape[-1], width), device=x.device, dtype=torch.float64)
    earlier = torch.ones((CHUNK, CHUNK), device=x.device, dtype=torch.bool).tril()
    for start in range(0, length, CHUNK):
        part = slice(start, start + CHUNK)
        values, inputs, outputs = (value[:, part].double().transpose(1, 2) for value in (x, b, c))
        gain = a[:, part].double().transpose(1, 2).cumsum(-1)
        gap = (gain[..., :, None] - gain[..., None, :]).masked_fill_(~earlier, 0.0)
        weights = outputs @ inputs.transpose(-1, -2) * gap.exp_() * earlier
        out = weights @ values + (outputs * gain.exp()[..., None]) @ state
        y[:, part] = out.transpose(1, 2)
        last = gain[..., -1:]
        added = (inputs * (last - gain).exp()[..., None]).transpose(-1, -2) @ values
        state = state * last.exp()[..., None] + added
    return (y,)
