"""Triangle multiplicative update with outgoing edges: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

HIDDEN = 128
EPS = 1e-5
KEPT_SHARE = {"open": 0.97, "masked": 0.5}
BIAS_SCALE = 0.2
SHIFT = 5.0
ORACLE_ELEMENTS = 1 << 25


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    n: int,
    batch: int,
    dim: int,
    mask: str = "open",
    kind: str = "normal",
) -> tuple[torch.Tensor, ...]:
    """Return (x [B, N, N, D], mask [B, N, N], norm_w [D], norm_b [D], w_left, w_right, w_left_gate, w_right_gate,
    w_gate, each [128, D], out_norm_w [128], out_norm_b [128], w_out [D, 128]) in float32.

    x is normal, cauchy (heavy tails, scale 2) or shifted (normal with a mean of 5). The mask holds ones and zeros;
    `mask` open keeps 97 of 100 pairs, masked every other one.
    """
    at = {"device": generator.device, "generator": generator}
    if kind == "cauchy":
        x = torch.rand((batch, n, n, dim), **at).sub_(0.5).mul_(torch.pi).tan_().mul_(2.0)
    else:
        x = torch.randn((batch, n, n, dim), **at)
    if kind == "shifted":
        x.add_(SHIFT)
    kept = (torch.rand((batch, n, n), **at) < KEPT_SHARE[mask]).float()
    norm_w = torch.randn(dim, **at)
    # A large bias gives left and right a constant part whose sum over k would drown all else.
    norm_b = torch.randn(dim, **at).mul_(BIAS_SCALE)
    projections = [torch.randn((HIDDEN, dim), **at).mul_(HIDDEN**-0.5) for _ in range(5)]
    out_norm_w, out_norm_b = (torch.randn(HIDDEN, **at) for _ in range(2))
    w_out = torch.randn((dim, HIDDEN), **at).mul_(dim**-0.5)
    data = (x, kept, norm_w, norm_b, *projections, out_norm_w, out_norm_b, w_out)
    return tuple(value.to(device) for value in data)


def reference(data):
    """Return the updated pairs, [B, N, N, D] float32."""
    x, mask, norm_w, norm_b, w_left, w_right, w_left_gate, w_right_gate, w_gate, out_norm_w, out_norm_b, w_out = data
    linear, layer_norm = torch.nn.functional.linear, torch.nn.functional.layer_norm
    x = layer_norm(x, norm_w.shape, norm_w, norm_b, EPS)
    left = linear(x, w_left) * mask[..., None] * linear(x, w_left_gate).sigmoid()
    right = linear(x, w_right) * mask[..., None] * linear(x, w_right_gate).sigmoid()
    out = torch.einsum("bikd,bjkd->bijd", left, right)
    out = layer_norm(out, out_norm_w.shape, out_norm_w, out_norm_b, EPS)
    return linear(out * linear(x, w_gate).sigmoid(), w_out)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact output in float64, some rows of pairs at a time."""
    x, mask, *weights = data
    w = [value.double() for value in weights]
    norm_w, norm_b, w_left, w_right, w_left_gate, w_right_gate, w_gate, out_norm_w, out_norm_b, w_out = w
    batch, n, _, dim = x.shape
    at = {"device": x.device, "dtype": torch.float64}
    out = torch.empty(x.shape, **at)
    left, right = (torch.empty((HIDDEN, n, n), **at) for _ in range(2))
    step = max(1, ORACLE_ELEMENTS // (n * (3 * HIDDEN + 2 * dim)))
    for b in range(batch):
        for start in range(0, n, step):
            part = slice(start, start + step)
            rows = _normalised(x[b, part].double(), norm_w, norm_b)
            for target, weight, gate in ((left, w_left, w_left_gate), (right, w_right, w_right_gate)):
                edge = rows @ weight.t() * (rows @ gate.t()).sigmoid() * mask[b, part, :, None]
                target[:, part] = edge.permute(2, 0, 1)
        for start in range(0, n, step):
            part = slice(start, start + step)
            sums = (left[:, part] @ right.transpose(1, 2)).permute(1, 2, 0)
            gate = (_normalised(x[b, part].double(), norm_w, norm_b) @ w_gate.t()).sigmoid()
            out[b, part] = (_normalised(sums, out_norm_w, out_norm_b) * gate) @ w_out.t()
    return (out,)


def _normalised(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred * (centred.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight + bias
