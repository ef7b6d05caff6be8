"""Plausible wrong kernels of cumsum, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def _blocks(x: torch.Tensor, width: int) -> torch.Tensor:
    return torch.nn.functional.pad(x, (0, -x.shape[1] % width)).unflatten(1, (-1, width))


def exclusive(data):
    """Leave the element itself out."""
    (x,) = data
    return torch.cumsum(x, -1) - x


def reverse(data):
    """Sum from the end."""
    (x,) = data
    return x.flip(-1).cumsum(-1).flip(-1)


def first_axis(data):
    """Sum over the rows."""
    (x,) = data
    return torch.cumsum(x, 0)


def across_rows(data):
    """Carry the sum of a row into the next one."""
    (x,) = data
    return torch.cumsum(x.reshape(-1), 0).view(x.shape)


def no_carry(data):
    """Start anew in every block of 128 columns."""
    (x,) = data
    return _blocks(x, 128).cumsum(-1).flatten(1)[:, : x.shape[1]].contiguous()


def neighbour_carry(data):
    """Add the sum of the previous block of 64 columns only."""
    (x,) = data
    blocks = _blocks(x, 64)
    carry = blocks.sum(-1).roll(1, 1)
    carry[:, 0] = 0.0
    return (blocks.cumsum(-1) + carry[..., None]).flatten(1)[:, : x.shape[1]].contiguous()


def own_block_in_carry(data):
    """Add the sums of the blocks up to and including the own one."""
    (x,) = data
    blocks = _blocks(x, 64)
    carry = blocks.sum(-1).cumsum(-1)
    return (blocks.cumsum(-1) + carry[..., None]).flatten(1)[:, : x.shape[1]].contiguous()


def missing_step(data):
    """Stop the doubling at a distance of 64."""
    (x,) = data
    out = x.clone()
    distance = 1
    while distance < min(x.shape[1], 64):
        out[:, distance:] = out[:, distance:] + out[:, :-distance].clone()
        distance *= 2
    return out


def low_precision(data):
    """Round the input to bfloat16."""
    (x,) = data
    return torch.cumsum(x.bfloat16().float(), -1)


def tensor_core_precision(data):
    """Round the input to the 10 bits of TF32."""
    (x,) = data
    bits = x.view(torch.int32)
    rounded = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
    return torch.cumsum(rounded, -1)


WRONG = {
    function.__name__: function
    for function in (
        exclusive,
        reverse,
        first_axis,
        across_rows,
        no_carry,
        neighbour_carry,
        own_block_in_carry,
        missing_step,
        low_precision,
        tensor_core_precision,
    )
}
