import torch
import torch.nn.functional as F

EPS = 1e-5


def fold(weight, bn):
    gamma, beta, mean, variance = bn
    scale = gamma * torch.rsqrt(variance + EPS)
    folded = (weight * scale.view(-1, 1, 1, 1)).to(weight.dtype)
    shift = (beta - mean * scale).to(weight.dtype)
    return folded.contiguous(memory_format=torch.channels_last), shift


def custom_kernel(data):
    x, w1, bn1, w2, bn2 = data[:5]
    stride = 2 if len(data) > 5 else 1
    wide = x.contiguous(memory_format=torch.channels_last)
    filters, shift = fold(w1, bn1)
    y = F.conv2d(wide, filters, shift, stride=stride, padding=1).relu_()
    filters, shift = fold(w2, bn2)
    y = F.conv2d(y, filters, shift, padding=1)
    if len(data) > 5:
        filters, shift = fold(data[5], data[6])
        wide = F.conv2d(wide, filters, shift, stride=stride)
    return torch.relu_(y.add_(wide)).contiguous()
