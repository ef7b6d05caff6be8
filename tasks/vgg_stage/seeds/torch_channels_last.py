import torch
import torch.nn.functional as F


def custom_kernel(data):
    x, w1, b1, w2, b2 = data
    last = torch.channels_last
    y = F.conv2d(x.contiguous(memory_format=last), w1.contiguous(memory_format=last), b1, padding=1).relu_()
    y = F.conv2d(y, w2.contiguous(memory_format=last), b2, padding=1)
    return F.max_pool2d(y, 2).relu_().contiguous()
