"""Cross-entropy with its gradient: inputs, PyTorch reference and float64 oracle."""

from __future__ import annotations

import torch

CHUNK_ELEMENTS = 1 << 24


def make_inputs(
    generator: torch.Generator, device: torch.device | str, *, rows: int, vocabulary: int, kind: str = "normal"
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (logits [rows, vocabulary] bfloat16, targets [rows] int64, grad_output [rows] float32).

    `kind` is normal (row scales from 1 to 4, rows shifted by up to 30, every third row with a likely target), large
    (scale 60: exp overflows without the row maximum) or edges (targets 0 and vocabulary - 1 only).
    """
    at = {"device": generator.device, "generator": generator}
    scale = 60.0 if kind == "large" else torch.rand((rows, 1), **at).mul_(3.0).add_(1.0)
    shift = torch.rand((rows, 1), **at).mul_(60.0).sub_(30.0)
    logits = torch.randn((rows, vocabulary), **at).mul_(scale).add_(shift)
    targets = torch.randint(0, vocabulary, (rows,), **at)
    if kind == "edges":
        targets = torch.where(targets % 2 == 0, 0, vocabulary - 1)
    boost = torch.zeros((rows, 1), device=generator.device)
    boost[1::3] = 8.0  # never the only row: its tiny loss would be held to an absolute error of its own size
    logits.scatter_add_(1, targets[:, None], boost)
    magnitude = torch.rand(rows, **at).mul_(1.75).add_(0.25)
    grad_output = torch.randn(rows, **at).sign_().mul_(magnitude)
    return logits.to(device, torch.bfloat16), targets.to(device), grad_output.to(device)


def reference(data):
    """Return (losses [rows] float32, grad [rows, vocabulary] bfloat16)."""
    logits, targets, grad_output = data
    x = logits.float()
    losses = torch.nn.functional.cross_entropy(x, targets, reduction="none")
    grad = torch.softmax(x, dim=-1)
    grad.scatter_add_(1, targets[:, None], grad.new_full((grad.shape[0], 1), -1.0))
    return losses, (grad * grad_output[:, None]).to(logits.dtype)


def oracle(data: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the exact losses and gradient for the given inputs in float64."""
    logits, targets, grad_output = data
    losses = torch.empty(logits.shape[0], device=logits.device, dtype=torch.float64)
    grad = torch.empty(logits.shape, device=logits.device, dtype=torch.float64)
    step = max(1, CHUNK_ELEMENTS // logits.shape[1])
    for start in range(0, logits.shape[0], step):
        rows = slice(start, start + step)
        shifted = logits[rows].double()
        shifted -= shifted.amax(-1, keepdim=True)
        index = targets[rows, None]
        at_target = shifted.gather(1, index)
        p = shifted.exp_()
        total = p.sum(-1, keepdim=True)
        losses[rows] = (total.log() - at_target).squeeze(1)
        # 1 - p of a likely target cancels; the sum of the other terms does not.
        p.scatter_(1, index, 0.0)
        others = p.sum(-1, keepdim=True)
        p.scatter_(1, index, -others)
        grad[rows] = p.div_(total).mul_(grad_output[rows, None].double())
    return losses, grad
