"""Plausible wrong kernels of layer_norm_backward, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def _gradients(data, **changes):
    dy, x, weight, mean, rstd = (value.float() for value in data)
    g, w = dy, changes.get("weight", weight)
    scale = rstd[:, None]
    normal = (x - changes.get("mean", mean)[:, None]) * scale
    inner = g * w
    n = changes.get("n", x.shape[1])
    first = inner.sum(-1, keepdim=True) / n * changes.get("keep_first", 1.0)
    second = (inner * normal).sum(-1, keepdim=True) / n * changes.get("keep_second", 1.0)
    dx = (inner - first - normal * second) * changes.get("scale", scale)
    return [out.to(data[1].dtype) for out in (dx, (g * normal).sum(0), g.sum(0))]


def no_mean_term(data):
    """Leave out the mean of the gradient in dx."""
    return _gradients(data, keep_first=0.0)


def no_projection_term(data):
    """Leave out the projection on the normalised input in dx."""
    return _gradients(data, keep_second=0.0)


def no_weight(data):
    """Leave out the weight in dx."""
    return _gradients(data, weight=torch.ones_like(data[2], dtype=torch.float32))


def no_rstd(data):
    """Leave out the outer factor rstd in dx."""
    return _gradients(data, scale=1.0)


def no_centring(data):
    """Normalise x as rms_norm does."""
    return _gradients(data, mean=torch.zeros_like(data[3]))


def padded_mean(data):
    """Divide the row sums by the block width rather than by n."""
    return _gradients(data, n=1 << (data[1].shape[1] - 1).bit_length())


def swapped(data):
    """Return dweight and dbias in the wrong order."""
    dx, dweight, dbias = _gradients(data)
    return dx, dbias, dweight


def weighted_dweight(data):
    """Multiply dweight by the weight."""
    dx, dweight, dbias = _gradients(data)
    return dx, dweight * data[2], dbias


def mean_over_rows(data):
    """Average dweight and dbias over the rows."""
    dx, dweight, dbias = _gradients(data)
    rows = max(2, data[1].shape[0])
    return dx, dweight / rows, dbias / rows


def last_rows_dropped(data):
    """Leave the rows after the last full block of 8 out of dweight and dbias."""
    dx, _, _ = _gradients(data)
    end = data[1].shape[0] // 8 * 8
    _, dweight, dbias = _gradients((data[0][:end], data[1][:end], data[2], data[3][:end], data[4][:end]))
    return dx, dweight, dbias


def low_precision(data):
    """Compute in bfloat16."""
    return [out.to(data[1].dtype) for out in _gradients([value.bfloat16() for value in data])]


def low_precision_sums(data):
    """Add the rows of dweight and dbias up in bfloat16."""
    dy, x, _, mean, rstd = data
    dx, _, _ = _gradients(data)
    normal = (x.float() - mean[:, None]) * rstd[:, None]
    terms = torch.stack(((dy.float() * normal).bfloat16(), dy.bfloat16()))
    total = torch.zeros_like(terms[:, 0])
    for row in range(min(64, terms.shape[1])):
        total = total + terms[:, row]
    total = total + terms[:, 64:].sum(1)
    return dx, total[0].to(x.dtype), total[1].to(x.dtype)


WRONG = {
    function.__name__: function
    for function in (
        no_mean_term,
        no_projection_term,
        no_weight,
        no_rstd,
        no_centring,
        padded_mean,
        swapped,
        weighted_dweight,
        mean_over_rows,
        last_rows_dropped,
        low_precision,
        low_precision_sums,
    )
}
