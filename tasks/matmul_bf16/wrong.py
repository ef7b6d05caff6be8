"""Plausible wrong kernels of matmul_bf16, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def k_tail_dropped(data):
    """Leave out the products after the last full block of 32."""
    a, b = data
    end = max(1, a.shape[1] // 32 * 32)
    return torch.matmul(a[:, :end].contiguous(), b[:end])


def row_tail_dropped(data):
    """Leave the rows after the last full tile of 16 at zero."""
    a, b = data
    out = torch.matmul(a, b)
    out[max(1, a.shape[0] // 16 * 16) :] = 0.0
    return out


def column_tail_dropped(data):
    """Leave the columns after the last full tile of 16 at zero."""
    a, b = data
    out = torch.matmul(a, b)
    out[:, max(1, b.shape[1] // 16 * 16) :] = 0.0
    return out


def half_precision(data):
    """Convert to float16, where large values overflow."""
    a, b = data
    return torch.matmul(a.half(), b.half()).bfloat16()


def eight_bit(data):
    """Round the factors to e4m3 with one scale each."""
    a, b = data
    a_scale, b_scale = (value.float().abs().amax() / 448.0 for value in (a, b))
    a_low = (a.float() / a_scale).to(torch.float8_e4m3fn).float()
    b_low = (b.float() / b_scale).to(torch.float8_e4m3fn).float()
    return (a_low @ b_low * (a_scale * b_scale)).bfloat16()


def low_accumulator(data):
    """Round the running sum to bfloat16 after every block of 16."""
    a, b = data
    total = torch.zeros((a.shape[0], b.shape[1]), device=a.device, dtype=torch.bfloat16)
    for start in range(0, a.shape[1], 16):
        total = total + (a[:, start : start + 16].float() @ b[start : start + 16].float()).bfloat16()
    return total


def transposed_factor(data):
    """Read b as if it were stored by columns."""
    a, b = data
    return torch.matmul(a, b.reshape(b.shape[1], b.shape[0]).t())


def first_half_only(data):
    """Add only one of two partial sums."""
    a, b = data
    end = (a.shape[1] + 1) // 2
    return torch.matmul(a[:, :end].contiguous(), b[:end])


WRONG = {
    function.__name__: function
    for function in (
        k_tail_dropped,
        row_tail_dropped,
        column_tail_dropped,
        half_precision,
        eight_bit,
        low_accumulator,
        transposed_factor,
        first_half_only,
    )
}
