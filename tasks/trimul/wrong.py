"""Plausible wrong kernels of trimul, each of which a checking case has to expose."""

from __future__ import annotations

import torch
from torch.nn.functional import layer_norm, linear

from tasks.trimul.reference import EPS


def _triangle(left, right):
    return torch.einsum("bikd,bjkd->bijd", left, right)


def _update(
    data,
    *,
    norm=lambda x, w, b: layer_norm(x, w.shape, w, b, EPS),
    out_norm=lambda x, w, b: layer_norm(x, w.shape, w, b, EPS),
    triangle=_triangle,
    masks=(True, True),
    gate=torch.sigmoid,
    out_gate=torch.sigmoid,
    raw_gate=False,
):
    x, mask, norm_w, norm_b, w_left, w_right, w_left_gate, w_right_gate, w_gate, out_norm_w, out_norm_b, w_out = data
    rows = norm(x, norm_w, norm_b)
    edges = []
    for weight, gate_weight, masked in ((w_left, w_left_gate, masks[0]), (w_right, w_right_gate, masks[1])):
        edge = linear(rows, weight) * gate(linear(rows, gate_weight))
        edges.append(edge * mask[..., None] if masked else edge)
    sums = out_norm(triangle(*edges), out_norm_w, out_norm_b)
    return linear(sums * out_gate(linear(x if raw_gate else rows, w_gate)), w_out)


def no_mask(data):
    """Ignore the mask."""
    return _update(data, masks=(False, False))


def mask_only_left(data):
    """Mask only one of the two edges."""
    return _update(data, masks=(True, False))


def incoming(data):
    """Sum over incoming rather than outgoing edges."""
    return _update(data, triangle=lambda a, b: torch.einsum("bkid,bkjd->bijd", a, b))


def exchanged(data):
    """Exchange left and right, which transposes the pairs."""
    return _update(data, triangle=lambda a, b: _triangle(b, a))


def last_edge_dropped(data):
    """Leave out the last k."""
    return _update(data, triangle=lambda a, b: _triangle(a[:, :, :-1], b[:, :, :-1]))


def first_batch_right(data):
    """Take the right edges of the first batch element for all."""
    return _update(data, triangle=lambda a, b: _triangle(a, b[:1].expand_as(b)))


def no_edge_gates(data):
    """Leave out the gates of the edges."""
    return _update(data, gate=torch.ones_like)


def gates_without_sigmoid(data):
    """Multiply by the gates' projections themselves."""
    return _update(data, gate=lambda x: x)


def no_output_gate(data):
    """Leave out the gate of the output."""
    return _update(data, out_gate=torch.ones_like)


def gate_of_raw_input(data):
    """Compute the output's gate from the input before its normalisation."""
    return _update(data, raw_gate=True)


def no_output_norm(data):
    """Leave out the normalisation of the sums."""
    return _update(data, out_norm=lambda x, w, b: x)


def no_output_bias(data):
    """Leave out the bias of the second normalisation."""
    return _update(data, out_norm=lambda x, w, b: layer_norm(x, w.shape, w, None, EPS))


def no_input_bias(data):
    """Leave out the bias of the first normalisation."""
    return _update(data, norm=lambda x, w, b: layer_norm(x, w.shape, w, None, EPS))


def mean_not_subtracted(data):
    """Divide by the root mean square in the first normalisation."""
    return _update(data, norm=lambda x, w, b: x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt() * w + b)


def float8_edges(data):
    """Round the factors of the triangle's sums to float8."""

    def triangle(a, b):
        return _triangle(a.to(torch.float8_e4m3fn).float(), b.to(torch.float8_e4m3fn).float())

    return _update(data, triangle=triangle)


WRONG = {
    function.__name__: function
    for function in (
        no_mask,
        mask_only_left,
        incoming,
        exchanged,
        last_edge_dropped,
        first_batch_right,
        no_edge_gates,
        gates_without_sigmoid,
        no_output_gate,
        gate_of_raw_input,
        no_output_norm,
        no_output_bias,
        no_input_bias,
        mean_not_subtracted,
        float8_edges,
    )
}
