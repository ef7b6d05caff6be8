import torch

GROUPS = 32
EPS = 1e-5


def custom_kernel(data):
    x, weight, bias = data
    batch, channels, height, width = x.shape
    h = x.float().view(batch, GROUPS, -1)
    mean = h.mean(dim=-1, keepdim=True)
    centred = h - mean
    variance = centred.square().mean(dim=-1, keepdim=True)
    y = (centred * torch.rsqrt(variance + EPS)).view(batch, channels, height, width)
    return (y * weight.float()[:, None, None] + bias.float()[:, None, None]).to(x.dtype)
