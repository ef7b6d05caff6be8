"""Plausible wrong kernels of rope, each of which a checking case has to expose."""

from __future__ import annotations

import torch


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def _tables(data) -> tuple[torch.Tensor, torch.Tensor]:
    return data[2][:, None, :], data[3][:, None, :]


def wrong_direction(data):
    """Rotate by the negative angle."""
    cos, sin = _tables(data)
    return _rotate(data[0], cos, -sin), _rotate(data[1], cos, -sin)


def neighbours_paired(data):
    """Rotate neighbouring values rather than the two halves."""
    cos, sin = _tables(data)
    results = []
    for x in data[:2]:
        first, second = x.float().unflatten(-1, (-1, 2)).unbind(-1)
        pair = torch.stack((first * cos - second * sin, second * cos + first * sin), -1)
        results.append(pair.flatten(-2).to(x.dtype))
    return tuple(results)


def halves_swapped(data):
    """Return the second half in front of the first."""
    cos, sin = _tables(data)
    return tuple(_rotate(x, cos, sin).roll(x.shape[-1] // 2, -1).contiguous() for x in data[:2])


def keys_unrotated(data):
    """Copy k."""
    cos, sin = _tables(data)
    return _rotate(data[0], cos, sin), data[1].clone()


def next_position(data):
    """Use the tables of the following position."""
    cos, sin = (table.roll(-1, 0) for table in _tables(data))
    return _rotate(data[0], cos, sin), _rotate(data[1], cos, sin)


def position_of_token(data):
    """Take the index over batch and sequence, modulo a block of 16, as the position."""
    q, k, cos, sin = data
    row = torch.arange(q.shape[1], device=q.device) % 16
    return tuple(_rotate(x, cos[row][:, None], sin[row][:, None]) for x in (q, k))


def sine_dropped(data):
    """Leave out the products with the sine."""
    cos, sin = _tables(data)
    return _rotate(data[0], cos, sin * 0.0), _rotate(data[1], cos, sin * 0.0)


def low_precision_tables(data):
    """Round the tables to bfloat16."""
    cos, sin = (table.bfloat16().float() for table in _tables(data))
    return _rotate(data[0], cos, sin), _rotate(data[1], cos, sin)


def rounded_products(data):
    """Round the products to bfloat16 before they are added."""
    cos, sin = _tables(data)
    results = []
    for x in data[:2]:
        first, second = x.float().chunk(2, dim=-1)
        products = [(a * b).bfloat16() for a, b in ((first, cos), (second, sin), (second, cos), (first, sin))]
        results.append(torch.cat((products[0] - products[1], products[2] + products[3]), dim=-1))
    return tuple(results)


def last_head_dropped(data):
    """Leave the last head of q as it was."""
    cos, sin = _tables(data)
    out = _rotate(data[0], cos, sin)
    out[:, :, -1] = data[0][:, :, -1]
    return out, _rotate(data[1], cos, sin)


WRONG = {
    function.__name__: function
    for function in (
        wrong_direction,
        neighbours_paired,
        halves_swapped,
        keys_unrotated,
        next_position,
        position_of_token,
        sine_dropped,
        low_precision_tables,
        rounded_products,
        last_head_dropped,
    )
}
