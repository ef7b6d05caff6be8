"""Plausible wrong kernels of fp8_quant, each of which a checking case has to expose."""

from __future__ import annotations

import torch

FP8_MAX = 448.0
FLOOR = 1e-10


def _groups(data) -> torch.Tensor:
    x, _, x_s = data
    return x.view(x_s.shape[0], x_s.shape[1], -1)


def _write(data, groups: torch.Tensor, scales: torch.Tensor, limit: float = FP8_MAX):
    x, x_q, x_s = data
    x_q.copy_((groups / scales[..., None]).clamp(-limit, limit).reshape(x.shape))
    x_s.copy_(scales)
    return x_q, x_s


def no_floor(data):
    """Leave out the floor of the scale."""
    groups = _groups(data)
    return _write(data, groups, groups.abs().amax(-1) / FP8_MAX)


def loose_floor(data):
    """Use a floor of 1e-4."""
    groups = _groups(data)
    return _write(data, groups, groups.abs().amax(-1).clamp(min=1e-4) / FP8_MAX)


def signed_maximum(data):
    """Take the largest value, not the largest magnitude."""
    groups = _groups(data)
    return _write(data, groups, groups.amax(-1).clamp(min=FLOOR) / FP8_MAX)


def token_scale(data):
    """Use one scale for the whole token."""
    groups = _groups(data)
    peak = groups.abs().amax((-2, -1), keepdim=True).squeeze(-1)
    return _write(data, groups, peak.clamp(min=FLOOR).expand(groups.shape[:2]) / FP8_MAX)


def fixed_group(data):
    """Assume 128 values per group."""
    x, x_q, x_s = data
    flat = x.reshape(-1)
    padded = torch.nn.functional.pad(flat, (0, -flat.numel() % 128)).view(-1, 128)
    scales = padded.abs().amax(-1).clamp(min=FLOOR) / FP8_MAX
    x_q.copy_((padded / scales[:, None]).clamp(-FP8_MAX, FP8_MAX).reshape(-1)[: flat.numel()].view(x.shape))
    index = torch.arange(x_s.numel(), device=x.device) % scales.numel()
    x_s.copy_(scales[index].view(x_s.shape))
    return x_q, x_s


def other_format(data):
    """Scale to the 57344 of e5m2."""
    groups = _groups(data)
    return _write(data, groups, groups.abs().amax(-1).clamp(min=FLOOR) / 57344.0, 57344.0)


def inverse_scale(data):
    """Return the reciprocal of the scale."""
    groups = _groups(data)
    x_q, x_s = _write(data, groups, groups.abs().amax(-1).clamp(min=FLOOR) / FP8_MAX)
    return x_q, x_s.reciprocal_()


def rounded_to_fp8(data):
    """Round the values to e4m3."""
    groups = _groups(data)
    x_q, x_s = _write(data, groups, groups.abs().amax(-1).clamp(min=FLOOR) / FP8_MAX)
    return x_q.copy_(x_q.to(torch.float8_e4m3fn).float()), x_s


def low_precision(data):
    """Divide in bfloat16."""
    groups = _groups(data)
    return _write(data, groups.bfloat16(), (groups.abs().amax(-1).clamp(min=FLOOR) / FP8_MAX).bfloat16())


def scales_unwritten(data):
    """Leave the buffer of the scales as it was."""
    x_q, _ = _write(
        (data[0], data[1], data[2].clone()), _groups(data), _groups(data).abs().amax(-1).clamp(min=FLOOR) / FP8_MAX
    )
    return x_q, data[2]


def last_groups_dropped(data):
    """Forget the groups after the last full tile of 8."""
    groups = _groups(data)
    x_q, x_s = _write(data, groups, groups.abs().amax(-1).clamp(min=FLOOR) / FP8_MAX)
    end = x_s.numel() // 8 * 8
    x_s.view(-1)[end:] = 0.0
    x_q.view(x_s.numel(), -1)[end:] = 0.0
    return x_q, x_s


WRONG = {
    function.__name__: function
    for function in (
        no_floor,
        loose_floor,
        signed_maximum,
        token_scale,
        fixed_group,
        other_format,
        inverse_scale,
        rounded_to_fp8,
        low_precision,
        scales_unwritten,
        last_groups_dropped,
    )
}
