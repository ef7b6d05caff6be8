"""The 8 largest values of each row: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

K = 8
KEPT_SHARE = 0.1
CHUNK_ELEMENTS = 1 << 24


def make_inputs(
    generator: torch.Generator, device: torch.device | str, *, rows: int, n: int, kind: str = "mixed"
) -> tuple[torch.Tensor]:
    """Return (x [rows, n] float32,) on the generator's device, moved to `device`; no finite value repeats in a row.

    `kind` is mixed (both signs), negative (all values below zero), rotated (each row rises from a random place on,
    wraps around and rises again) or masked (90% of the entries are -inf, at least 8 are not).
    """
    at = {"device": generator.device, "generator": generator}
    order = torch.rand((rows, n), **at).argsort(-1)
    kept = order[:, :K].clone()
    if kind == "rotated":
        shift = torch.randint(0, n, (rows, 1), **at)
        order = (torch.arange(n, device=generator.device) + shift) % n
    # Neighbouring ranks differ by at least 0.75, far more than float32 resolves, so that there are no ties.
    x = order.float().add_(torch.rand((rows, n), **at), alpha=0.25)
    x.sub_(n + 1.0 if kind == "negative" else n / 2.0)
    scale = torch.rand((rows, 1), **at).mul_(6.0).sub_(3.0).exp2_()
    x.mul_(scale)
    if kind == "masked":
        dropped = torch.rand((rows, n), **at) > KEPT_SHARE
        x.masked_fill_(dropped.scatter_(1, kept, False), float("-inf"))
    return (x.to(device),)


def reference(data):
    """Return (values [rows, 8] float32, indices [rows, 8] int64), largest first."""
    (x,) = data
    values, indices = torch.topk(x, K, dim=-1)
    return values, indices


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return values and indices of the 8 largest entries, largest first, as float64."""
    (x,) = data
    values = torch.empty((x.shape[0], K), device=x.device, dtype=torch.float64)
    indices = torch.empty_like(values)
    step = max(1, CHUNK_ELEMENTS // x.shape[1])
    for start in range(0, x.shape[0], step):
        top = x[start : start + step].double().sort(-1, descending=True)
        values[start : start + step] = top.values[:, :K]
        indices[start : start + step] = top.indices[:, :K]
    return values, indices
