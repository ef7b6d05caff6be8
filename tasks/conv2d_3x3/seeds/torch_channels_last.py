import torch
import torch.nn.functional as F


def custom_kernel(data):
    x, weight, bias = data
    x_last = x.contiguous(memory_format=torch.channels_last)
    w_last = weight.contiguous(memory_format=torch.channels_last)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        y = F.conv2d(x_last, w_last, bias, padding=1)
    return y.contiguous()
