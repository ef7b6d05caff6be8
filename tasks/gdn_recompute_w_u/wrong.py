"""Plausible wrong kernels of gdn_recompute_w_u, each of which a checking case has to expose."""

from __future__ import annotations

import torch

from tasks.gdn_recompute_w_u.reference import by_chunk, by_token


def _products(a, x, y):
    return by_token(a @ by_chunk(x)), by_token(a @ by_chunk(y))


def _tf32(x):
    """Round to the ten bits of a TF32 significand."""
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def no_gate(data):
    """Leave exp(g) out of w."""
    k, v, beta, a, _ = data
    return _products(by_chunk(a), k * beta[..., None], v * beta[..., None])


def gate_in_both(data):
    """Apply exp(g) to u as well."""
    k, v, beta, a, g = data
    scale = (beta * g.exp())[..., None]
    return _products(by_chunk(a), k * scale, v * scale)


def no_beta_in_u(data):
    """Leave beta out of u."""
    k, v, beta, a, g = data
    return _products(by_chunk(a), k * (beta * g.exp())[..., None], v)


def output_scaled(data):
    """Scale the rows of the product rather than those of its right side."""
    k, v, beta, a, g = data
    w, u = _products(by_chunk(a), k, v)
    return w * (beta * g.exp())[..., None], u * beta[..., None]


def transposed_matrix(data):
    """Multiply by the transpose of A."""
    k, v, beta, a, g = data
    return _products(by_chunk(a).transpose(-1, -2), k * (beta * g.exp())[..., None], v * beta[..., None])


def unit_diagonal_dropped(data):
    """Take A without its diagonal."""
    k, v, beta, a, g = data
    return _products(by_chunk(a).tril(-1), k * (beta * g.exp())[..., None], v * beta[..., None])


def block_diagonal(data):
    """Multiply only the two 32 x 32 blocks on the diagonal of A."""
    k, v, beta, a, g = data
    inverse = by_chunk(a).clone()
    inverse[..., 32:, :32] = 0.0
    return _products(inverse, k * (beta * g.exp())[..., None], v * beta[..., None])


def first_head_gate(data):
    """Use the gate of the first head for every head."""
    k, v, beta, a, g = data
    return _products(by_chunk(a), k * (beta * g[..., :1].exp())[..., None], v * beta[..., None])


def tf32_operands(data):
    """Round the operands to TF32."""
    k, v, beta, a, g = data
    inverse = by_chunk(_tf32(a))
    return _products(inverse, _tf32(k * (beta * g.exp())[..., None]), _tf32(v * beta[..., None]))


WRONG = {
    function.__name__: function
    for function in (
        no_gate,
        gate_in_both,
        no_beta_in_u,
        output_scaled,
        transposed_matrix,
        unit_diagonal_dropped,
        block_diagonal,
        first_head_gate,
        tf32_operands,
    )
}
