"""Plausible wrong kernels of softmax, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def no_peak(data):
    """Leave out the row maximum, so that exp overflows."""
    (x,) = data
    e = x.float().exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def global_peak(data):
    """Subtract the maximum of the whole tensor."""
    (x,) = data
    e = (x.float() - x.float().amax()).exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def rounded_lse(data):
    """Subtract the log-sum-exp, which float32 rounds to the magnitude of the row's shift."""
    (x,) = data
    h = x.float()
    return (h - torch.logsumexp(h, -1, keepdim=True)).exp().to(x.dtype)


def first_axis(data):
    """Normalise over the rows."""
    (x,) = data
    return torch.softmax(x.float(), dim=0).nan_to_num(0.0).to(x.dtype)


def base_two(data):
    """Use powers of two without the factor log2(e)."""
    (x,) = data
    h = x.float()
    e = (h - h.amax(-1, keepdim=True)).exp2()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def padding_counted(data):
    """Let the padding of the block, loaded as 0, take part in maximum and sum."""
    (x,) = data
    n = x.shape[-1]
    h = torch.nn.functional.pad(x.float(), (0, (1 << (n - 1).bit_length()) - n))
    return torch.softmax(h, -1)[:, :n].to(x.dtype).contiguous()


def low_precision(data):
    """Compute exponentials and sum in bfloat16."""
    (x,) = data
    h = x.bfloat16()
    e = (h - h.amax(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def first_peak_kept(data):
    """Never rescale the running sum when a later block of 128 columns has a larger maximum."""
    (x,) = data
    h = x.float()
    total = torch.zeros((h.shape[0], 1), device=h.device)
    peak = torch.full_like(total, -1e30)
    for block in h.split(128, dim=1):
        peak = torch.maximum(peak, block.amax(1, keepdim=True))
        total = total + torch.exp(block - peak).sum(1, keepdim=True)
    return (torch.exp(h - peak) / total).to(x.dtype)


def tail_dropped(data):
    """Leave the columns after the last full block of 128 out of the sum."""
    (x,) = data
    h = x.float()
    e = (h - h.amax(-1, keepdim=True)).exp()
    end = max(2, e.shape[1] // 128 * 128)
    return (e / e[:, :end].sum(-1, keepdim=True).clamp(min=1e-30)).to(x.dtype)


def unnormalised(data):
    """Leave out the division by the sum."""
    (x,) = data
    h = x.float()
    return (h - h.amax(-1, keepdim=True)).exp().to(x.dtype)


WRONG = {
    function.__name__: function
    for function in (
        no_peak,
        global_peak,
        rounded_lse,
        first_axis,
        base_two,
        padding_counted,
        low_precision,
        first_peak_kept,
        tail_dropped,
        unnormalised,
    )
}
