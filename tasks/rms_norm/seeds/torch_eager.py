import torch

EPS = 1e-6


def custom_kernel(data):
    x, weight = data
    h = x.float()
    scale = torch.rsqrt(h.square().mean(dim=-1, keepdim=True) + EPS)
    return (h * scale * weight.float()).to(x.dtype)
