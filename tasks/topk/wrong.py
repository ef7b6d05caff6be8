"""Plausible wrong kernels of topk, each of which a checking case has to expose."""

from __future__ import annotations

import torch

K = 8


def smallest(data):
    """Take the smallest values."""
    return tuple(torch.topk(data[0], K, dim=-1, largest=False))


def ascending(data):
    """Return the largest value last."""
    return tuple(part.flip(-1) for part in torch.topk(data[0], K, dim=-1))


def by_magnitude(data):
    """Compare magnitudes."""
    (x,) = data
    indices = torch.topk(x.nan_to_num(neginf=0.0).abs(), K, dim=-1).indices
    return x.gather(1, indices), indices


def padding_counted(data):
    """Let the padding of the block, loaded as 0, compete."""
    (x,) = data
    n = x.shape[1]
    return tuple(torch.topk(torch.nn.functional.pad(x, (0, (1 << (n - 1).bit_length()) - n)), K, dim=-1))


def tail_dropped(data):
    """Leave the columns after the last full block of 64 out."""
    (x,) = data
    x = x.clone()
    x[:, max(K, x.shape[1] // 64 * 64) :] = float("-inf")
    return tuple(torch.topk(x, K, dim=-1))


def two_per_lane(data):
    """Keep only the largest two values of every 32nd column, so that a third one is lost."""
    (x,) = data
    lanes = torch.nn.functional.pad(x, (0, -x.shape[1] % 32), value=float("-inf")).unflatten(1, (-1, 32))
    kept = torch.topk(lanes, min(2, lanes.shape[1]), dim=1).indices
    hidden = torch.full_like(lanes, float("-inf")).scatter_(1, kept, lanes.gather(1, kept))
    return tuple(torch.topk(hidden.flatten(1), K, dim=-1))


def local_indices(data):
    """Return the index within a block of 64 columns."""
    values, indices = torch.topk(data[0], K, dim=-1)
    return values, indices % 64


def flat_indices(data):
    """Return the index within the whole tensor."""
    (x,) = data
    values, indices = torch.topk(x, K, dim=-1)
    rows = torch.arange(x.shape[0], device=x.device)[:, None]
    return values, indices + rows * x.shape[1]


def low_precision(data):
    """Compare and return values rounded to bfloat16."""
    (x,) = data
    values, indices = torch.topk(x.bfloat16(), K, dim=-1)
    return values.float(), indices


def coarse_keys(data):
    """Compare the upper 16 bits of the values only."""
    (x,) = data
    indices = torch.topk(x.bfloat16(), K, dim=-1).indices
    return x.gather(1, indices), indices


def unsorted(data):
    """Return the right set in the order of its columns."""
    values, indices = torch.topk(data[0], K, dim=-1)
    order = indices.argsort(-1)
    return values.gather(1, order), indices.gather(1, order)


WRONG = {
    function.__name__: function
    for function in (
        smallest,
        ascending,
        by_magnitude,
        padding_counted,
        tail_dropped,
        two_per_lane,
        local_indices,
        flat_indices,
        low_precision,
        coarse_keys,
        unsorted,
    )
}
