"""RMS normalisation: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

EPS = 1e-6
CHUNK_ELEMENTS = 1 << 24
ROW_EXPONENTS = {
    "mixed": (-10.0, 4.0),
    "large": (10.0, 12.0),
    "huge": (30.0, 55.0),
    "tiny": (-24.0, -12.0),
    "constant": (-6.0, 6.0),
}


def make_inputs(
    generator: torch.Generator, device: torch.device | str, *, shape: tuple[int, ...], dtype: str, kind: str = "mixed"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (x of `shape`, weight [n]) on the generator's device, moved to `device`.

    `kind` is mixed (row scales from 2^-10 to 2^4, so that epsilon changes some rows by a factor), large (squares
    overflow float16), huge (x itself overflows float16), tiny (epsilon dominates) or constant (every row repeats one
    value).
    """
    n = shape[-1]
    at = {"device": generator.device, "generator": generator}
    low, high = ROW_EXPONENTS[kind]
    exponent = torch.rand((*shape[:-1], 1), **at).mul_(high - low).add_(low)
    if kind == "constant":
        x = torch.randn((*shape[:-1], 1), **at).sign_().mul_(exponent.exp2_()).expand(shape).contiguous()
    else:
        x = torch.randn(shape, **at).mul_(exponent.exp2_())
    weight = torch.randn(n, **at).mul_(0.5).add_(1.0)
    target = getattr(torch, dtype)
    return x.to(device, target), weight.to(device, target)


def reference(data):
    """Return rms_norm(x, weight), shape and dtype of x."""
    x, weight = data
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, EPS)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result for the given inputs in float64, shape of x."""
    x, weight = data
    rows = x.reshape(-1, x.shape[-1])
    out = torch.empty(rows.shape, device=x.device, dtype=torch.float64)
    step = max(1, CHUNK_ELEMENTS // rows.shape[1])
    for start in range(0, rows.shape[0], step):
        h = rows[start : start + step].double()
        out[start : start + step] = h * (h.square().mean(-1, keepdim=True) + EPS).rsqrt() * weight.double()
    return (out.reshape(x.shape),)
