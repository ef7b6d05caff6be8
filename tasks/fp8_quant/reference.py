"""Per-group FP8 quantisation: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

FP8_MAX = 448.0
FLOOR = 1e-10
CHUNK_ELEMENTS = 1 << 24


def make_inputs(
    generator: torch.Generator, device: torch.device | str, *, tokens: int, width: int, group: int, kind: str = "mixed"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (x [tokens, width], x_q [tokens, width], x_s [tokens, width / group]), all float32, buffers full of NaN.

    `kind` is mixed (group scales from 2^-20 to 2^20, one group in 16 all zero, one in 16 below the scale's floor),
    negative (the largest magnitude of each group is negative) or sparse (all zero but
    the last group of each token).
    """
    at = {"device": generator.device, "generator": generator}
    groups = width // group
    exponent = torch.rand((tokens, groups, 1), **at).mul_(40.0).sub_(20.0)
    pick = torch.randint(0, 16, (tokens, groups, 1), **at)
    scale = exponent.exp2_()
    scale = torch.where(pick == 0, 0.0, torch.where(pick == 1, 1e-12, scale))
    x = torch.randn((tokens, groups, group), **at)
    if kind == "negative":
        x = x.clamp_(max=0.5)
    if kind == "sparse":
        scale[:, :-1] = 0.0
        scale[:, -1] = 1.0
    x = x.mul_(scale).reshape(tokens, width).to(device)
    return x, torch.full_like(x, float("nan")), torch.full((tokens, groups), float("nan"), device=device)


def reference(data):
    """Write and return (x_q, x_s)."""
    x, x_q, x_s = data
    groups = x.view(x_s.shape[0], x_s.shape[1], -1)
    scales = groups.abs().amax(dim=-1).clamp(min=FLOOR) / FP8_MAX
    x_q.copy_((groups / scales[..., None]).clamp(-FP8_MAX, FP8_MAX).view(x.shape))
    x_s.copy_(scales)
    return x_q, x_s


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the exact quantised values and scales for the given x in float64; reads no buffer."""
    x, _, x_s = data
    scales = torch.empty(x_s.shape, device=x.device, dtype=torch.float64)
    quantised = torch.empty(x.shape, device=x.device, dtype=torch.float64)
    step = max(1, CHUNK_ELEMENTS // x.shape[1])
    for start in range(0, x.shape[0], step):
        rows = slice(start, start + step)
        groups = x[rows].double().unflatten(1, (x_s.shape[1], -1))
        scales[rows] = groups.abs().amax(-1).clamp_(min=FLOOR) / FP8_MAX
        quantised[rows] = (groups / scales[rows, :, None]).clamp_(-FP8_MAX, FP8_MAX).flatten(1)
    return quantised, scales
