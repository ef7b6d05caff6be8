"""Plausible wrong kernels of w4a16_matmul, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def _codes(packed: torch.Tensor, order: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7)) -> torch.Tensor:
    planes = [(packed >> (4 * place)) & 15 for place in order]
    return torch.stack(planes, dim=1).flatten(0, 1).float()


def _spread(values: torch.Tensor, k: int) -> torch.Tensor:
    return values.float().repeat_interleave(k // values.shape[0], dim=0)


def _product(data, codes: torch.Tensor, zeros: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return (data[0].float() @ ((codes - zeros) * scales)).half()


def no_zero_point(data):
    """Leave out the zero points."""
    x, packed, scales, zeros = data
    return _product(data, _codes(packed), torch.zeros_like(_spread(zeros, x.shape[1])), _spread(scales, x.shape[1]))


def fixed_zero_point(data):
    """Take eight for every zero point."""
    x, packed, scales, zeros = data
    eight = torch.full_like(_spread(zeros, x.shape[1]), 8.0)
    return _product(data, _codes(packed), eight, _spread(scales, x.shape[1]))


def no_scale(data):
    """Leave out the scales."""
    x, packed, scales, zeros = data
    k = x.shape[1]
    return _product(
        data, _codes(packed), _spread(zeros, k), _spread(scales, k).mean() * torch.ones((k, 1)).to(x.device)
    )


def first_group_scale(data):
    """Use the scales of the first group everywhere."""
    x, packed, scales, zeros = data
    k = x.shape[1]
    return _product(data, _codes(packed), _spread(zeros, k), scales[:1].float())


def reversed_codes(data):
    """Unpack from the high end of the word."""
    x, packed, scales, zeros = data
    k = x.shape[1]
    return _product(data, _codes(packed, (7, 6, 5, 4, 3, 2, 1, 0)), _spread(zeros, k), _spread(scales, k))


def interleaved_codes(data):
    """Unpack even places first."""
    x, packed, scales, zeros = data
    k = x.shape[1]
    return _product(data, _codes(packed, (0, 2, 4, 6, 1, 3, 5, 7)), _spread(zeros, k), _spread(scales, k))


def signed_last_code(data):
    """Forget to mask after the arithmetic shift, so that the last code keeps the sign."""
    x, packed, scales, zeros = data
    k = x.shape[1]
    codes = _codes(packed)
    codes.view(k // 8, 8, -1)[:, 7] = (packed >> 28).float()
    return _product(data, codes, _spread(zeros, k), _spread(scales, k))


def three_bits(data):
    """Mask with 7."""
    x, packed, scales, zeros = data
    k = x.shape[1]
    return _product(data, _codes(packed) % 8, _spread(zeros, k), _spread(scales, k))


def low_precision(data):
    """Round the activations and the weights to bfloat16."""
    x, packed, scales, zeros = data
    k = x.shape[1]
    weight = ((_codes(packed) - _spread(zeros, k)) * _spread(scales, k)).bfloat16()
    return torch.matmul(x.bfloat16().float(), weight.float()).half()


def last_group_dropped(data):
    """Leave out the last group."""
    x, packed, scales, zeros = data
    k = x.shape[1]
    end = k - k // scales.shape[0]
    weight = (_codes(packed) - _spread(zeros, k)) * _spread(scales, k)
    return (x[:, :end].float() @ weight[:end]).half()


WRONG = {
    function.__name__: function
    for function in (
        no_zero_point,
        fixed_zero_point,
        no_scale,
        first_group_scale,
        reversed_codes,
        interleaved_codes,
        signed_last_code,
        three_bits,
        low_precision,
        last_group_dropped,
    )
}
