"""Plausible wrong kernels of batched_small_gemm, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def k_tail_dropped(data):
    """Leave out the products after the last full block of 4."""
    a, b = data
    end = a.shape[2] // 4 * 4
    return torch.bmm(a[:, :, :end], b[:, :end])


def first_matrix_repeated(data):
    """Read the first right factor for every product."""
    a, b = data
    return torch.bmm(a, b[:1].expand_as(b))


def next_matrix(data):
    """Read the right factor of the following product."""
    a, b = data
    return torch.bmm(a, b.roll(-1, 0))


def transposed_left(data):
    """Read the left factor as if it were stored by columns."""
    a, b = data
    return torch.bmm(a.reshape(a.shape[0], a.shape[2], a.shape[1]).transpose(1, 2), b)


def low_precision(data):
    """Compute with bfloat16 factors."""
    a, b = data
    return torch.bmm(a.bfloat16().float(), b.bfloat16().float())


def short_mantissa(data):
    """Cut the factors to the 10 mantissa bits of TF32."""
    a, b = ((value.view(torch.int32) & -8192).view(torch.float32) for value in data)
    return torch.bmm(a, b)


def half_precision(data):
    """Compute with float16 factors, where large values overflow."""
    a, b = data
    return torch.bmm(a.half().float(), b.half().float())


def row_tail_dropped(data):
    """Leave the rows after the last full tile of 4 at zero."""
    a, b = data
    out = torch.bmm(a, b)
    out[:, max(1, a.shape[1] // 4 * 4) :] = 0.0
    return out


def last_matrices_dropped(data):
    """Leave the products after the last full group of 4 at zero."""
    a, b = data
    out = torch.bmm(a, b)
    out[a.shape[0] // 4 * 4 :] = 0.0
    return out


WRONG = {
    function.__name__: function
    for function in (
        k_tail_dropped,
        first_matrix_repeated,
        next_matrix,
        transposed_left,
        low_precision,
        short_mantissa,
        half_precision,
        row_tail_dropped,
        last_matrices_dropped,
    )
}
