"""Plausible wrong kernels of segmented_sum, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def _sums(data, x: torch.Tensor | None = None, ids: torch.Tensor | None = None) -> torch.Tensor:
    x = data[0] if x is None else x
    ids = data[1] if ids is None else ids
    out = torch.zeros((data[2].shape[0] - 1, x.shape[1]), device=x.device, dtype=x.dtype)
    return out.index_add_(0, ids, x)


def last_row_dropped(data):
    """Leave out the last row of each segment."""
    x, _, offsets = data
    out = _sums(data)
    filled = offsets[1:] > offsets[:-1]
    return out - torch.where(filled[:, None], x[(offsets[1:] - 1).clamp(min=0)], 0.0)


def next_row_included(data):
    """Count the first row of the next segment as well."""
    x, _, offsets = data
    following = torch.nn.functional.pad(x, (0, 0, 0, 1))
    return _sums(data) + following[offsets[1:]]


def mean(data):
    """Divide by the length of the segment."""
    lengths = data[2].diff().clamp(min=1)
    return _sums(data) / lengths[:, None]


def maximum(data):
    """Take the largest value of each segment."""
    x, ids, offsets = data
    out = torch.zeros((offsets.shape[0] - 1, x.shape[1]), device=x.device)
    return out.scatter_reduce_(0, ids[:, None].expand_as(x), x, "amax", include_self=False)


def empty_skipped(data):
    """Number the segments without the empty ones."""
    _, ids, offsets = data
    filled = offsets.diff() > 0
    rank = filled.cumsum(0) - 1
    return _sums(data, ids=rank[ids])


def length_capped(data):
    """Add at most 16 rows of a segment."""
    x, ids, offsets = data
    place = torch.arange(x.shape[0], device=x.device) - offsets[ids]
    return _sums(data, x=x * (place < 16)[:, None])


def prefix_difference(data):
    """Subtract float32 prefix sums, whose rounding errors exceed the sums of short segments."""
    x, _, offsets = data
    prefix = torch.nn.functional.pad(x.cumsum(0, dtype=torch.float64).float(), (0, 0, 1, 0))
    return prefix[offsets[1:]] - prefix[offsets[:-1]]


def carried_over(data):
    """Forget to reset the sum at the start of every fourth segment."""
    out = _sums(data)
    index = torch.arange(1, out.shape[0], device=out.device)
    index = index[index % 4 == 1]
    return out.index_add(0, index, out[index - 1])


def low_precision(data):
    """Round the rows to bfloat16."""
    return _sums(data, x=data[0].bfloat16().float())


def tail_columns_dropped(data):
    """Leave the columns after the last full block of 16 at zero."""
    out = _sums(data)
    out[:, out.shape[1] // 16 * 16 :] = 0.0
    return out


WRONG = {
    function.__name__: function
    for function in (
        last_row_dropped,
        next_row_included,
        mean,
        maximum,
        empty_skipped,
        length_capped,
        prefix_difference,
        carried_over,
        low_precision,
        tail_columns_dropped,
    )
}
