import torch
import torch.nn.functional as F


def custom_kernel(data):
    x, weight, bias = data
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        y = F.conv2d(x, weight, padding=1)
    return y.add_(bias.view(1, -1, 1, 1))
