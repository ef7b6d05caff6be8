"""Plausible wrong kernels of cross_entropy, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def _parts(data, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    _, targets, grad_output = data
    lse = torch.logsumexp(x, -1, keepdim=True)
    p = torch.exp(x - lse)
    onehot = torch.zeros_like(p).scatter_(1, targets[:, None], 1.0)
    losses = (lse - x.gather(1, targets[:, None])).squeeze(1)
    return losses, p, onehot, grad_output[:, None]


def no_peak(data):
    """Leave out the row maximum, so that exp overflows."""
    logits, targets, grad_output = data
    e = logits.float().exp()
    total = e.sum(-1, keepdim=True)
    losses = total.log().squeeze(1) - logits.float().gather(1, targets[:, None]).squeeze(1)
    onehot = torch.zeros_like(e).scatter_(1, targets[:, None], 1.0)
    return losses, ((e / total - onehot) * grad_output[:, None]).to(logits.dtype)


def no_target_term(data):
    """Leave out the -1 at the target."""
    losses, p, _, go = _parts(data, data[0].float())
    return losses, (p * go).to(data[0].dtype)


def no_grad_output(data):
    """Leave out the factor grad_output."""
    losses, p, onehot, _ = _parts(data, data[0].float())
    return losses, (p - onehot).to(data[0].dtype)


def mean_reduction(data):
    """Divide the gradient by the number of rows."""
    losses, p, onehot, go = _parts(data, data[0].float())
    return losses, ((p - onehot) * go / max(2, len(losses))).to(data[0].dtype)


def wrong_sign(data):
    """Return the gradient of the log-likelihood."""
    losses, p, onehot, go = _parts(data, data[0].float())
    return losses, ((onehot - p) * go).to(data[0].dtype)


def base_two(data):
    """Return losses in bits."""
    losses, p, onehot, go = _parts(data, data[0].float())
    return losses / 0.6931471805599453, ((p - onehot) * go).to(data[0].dtype)


def low_precision(data):
    """Compute the softmax in bfloat16."""
    logits, targets, grad_output = data
    losses = torch.nn.functional.cross_entropy(logits.float(), targets, reduction="none")
    p = torch.exp(logits - torch.logsumexp(logits, -1, keepdim=True))
    onehot = torch.zeros_like(p).scatter_(1, targets[:, None], 1.0)
    return losses, (p - onehot) * grad_output[:, None].to(logits.dtype)


def rounded_losses(data):
    """Round the losses to bfloat16."""
    losses, p, onehot, go = _parts(data, data[0].float())
    return losses.bfloat16().float(), ((p - onehot) * go).to(data[0].dtype)


def target_only(data):
    """Write the gradient at the target and leave zeros elsewhere."""
    losses, p, onehot, go = _parts(data, data[0].float())
    return losses, ((p - 1.0) * onehot * go).to(data[0].dtype)


def block_tail_dropped(data):
    """Leave the columns after the last full block of 256 out of sum and gradient."""
    logits = data[0]
    x = logits.float()
    end = max(1, x.shape[1] // 256 * 256)
    x[:, end:] = float("-inf")
    losses, p, onehot, go = _parts(data, x)
    return losses, ((p - onehot) * go).to(logits.dtype)


def first_peak_kept(data):
    """Never rescale the running sum when a later block of 256 columns has a larger maximum."""
    logits, targets, grad_output = data
    x = logits.float()
    total = torch.zeros((x.shape[0], 1), device=x.device)
    peak = torch.full_like(total, float("-inf"))
    for block in x.split(256, dim=1):
        peak = torch.maximum(peak, block.amax(1, keepdim=True))
        total = total + torch.exp(block - peak).sum(1, keepdim=True)
    losses = (total.log() + peak - x.gather(1, targets[:, None])).squeeze(1)
    p = torch.exp(x - peak) / total
    onehot = torch.zeros_like(p).scatter_(1, targets[:, None], 1.0)
    return losses, ((p - onehot) * grad_output[:, None]).to(logits.dtype)


WRONG = {
    function.__name__: function
    for function in (
        no_peak,
        no_target_term,
        no_grad_output,
        mean_reduction,
        wrong_sign,
        base_two,
        low_precision,
        rounded_losses,
        target_only,
        block_tail_dropped,
        first_peak_kept,
    )
}
