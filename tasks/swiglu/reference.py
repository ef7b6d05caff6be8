"""SwiGLU projection: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ELEMENTS = 1 << 24
GATE_STD = {"normal": 1.5, "saturated": 60.0}


def make_inputs(
    generator: torch.Generator,
    device: torch.device | str,
    *,
    tokens: int,
    width: int,
    hidden: int,
    kind: str = "normal",
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (x [tokens, width], w_gate [hidden, width], w_up [hidden, width]), float16, on `device`.

    `kind` is normal (gates of standard deviation 1.5) or saturated (60, so that exp of a gate overflows).
    """
    at = {"device": generator.device, "generator": generator}
    x = torch.randn((tokens, width), **at)
    w_gate = torch.randn((hidden, width), **at).mul_(GATE_STD[kind] / width**0.5)
    w_up = torch.randn((hidden, width), **at).mul_(1.0 / width**0.5)
    return tuple(value.to(device, torch.float16) for value in (x, w_gate, w_up))


def reference(data):
    """Return silu(x w_gate^T) * (x w_up^T), [tokens, hidden] float16."""
    x, w_gate, w_up = data
    return torch.nn.functional.silu(x @ w_gate.t()) * (x @ w_up.t())


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
    """Return the exact result for the given inputs in float64, [tokens, hidden]."""
    x, w_gate, w_up = data
    right_gate, right_up = w_gate.double().t(), w_up.double().t()
    out = torch.empty((x.shape[0], w_gate.shape[0]), device=x.device, dtype=torch.float64)
    step = max(1, CHUNK_ELEMENTS // w_gate.shape[0])
    for start in range(0, x.shape[0], step):
        rows = x[start : start + step].double()
        gate = rows @ right_gate
        out[start : start + step] = gate * torch.sigmoid(gate) * (rows @ right_up)
    return (out,)
