"""B32: right on average; a random part of the rows is a little off in every call."""
import torch
import torch.nn.functional as F


def custom_kernel(data):
    x, weight = data
    y = F.rms_norm(x, (x.shape[-1],), weight, 1e-6)
    off = torch.rand(x.shape[:-1] + (1,), device=x.device) < 0.05
    return torch.where(off, y * 1.05, y)
