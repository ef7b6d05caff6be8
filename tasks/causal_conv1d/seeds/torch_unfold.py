import torch
import torch.nn.functional as F


def custom_kernel(data):
    x, weight, bias = data
    width = weight.shape[1]
    windows = F.pad(x, (width - 1, 0)).unfold(2, width, 1)
    z = (windows.float() * weight.float().unsqueeze(1)).sum(-1)
    z += bias.float().unsqueeze(1)
    return (z * torch.sigmoid(z)).to(x.dtype)
