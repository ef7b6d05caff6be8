import torch
import torch.nn.functional as F


def custom_kernel(data):
    x, weight, bias = data
    padded = F.pad(x, (weight.shape[1] - 1, 0))
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        z = F.conv1d(padded, weight.unsqueeze(1), bias, groups=x.shape[1])
    return F.silu(z, inplace=True)
