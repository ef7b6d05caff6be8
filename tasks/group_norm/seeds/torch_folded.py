import torch

GROUPS = 32
EPS = 1e-5


def custom_kernel(data):
    x, weight, bias = data
    batch, channels = x.shape[:2]
    flat = x.view(batch * GROUPS, -1)
    variance, mean = torch.var_mean(flat.float(), dim=-1, correction=0)
    scale = torch.rsqrt(variance + EPS).view(batch, GROUPS, 1) * weight.float().view(1, GROUPS, -1)
    shift = torch.addcmul(bias.float().view(1, GROUPS, -1), mean.view(batch, GROUPS, 1), scale, value=-1.0)
    out = torch.addcmul(shift.view(batch, channels, 1), x.view(batch, channels, -1), scale.view(batch, channels, 1))
    return out.to(x.dtype).view(x.shape)
