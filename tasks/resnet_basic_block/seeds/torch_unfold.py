import torch
import torch.nn.functional as F

EPS = 1e-5


def conv_norm(x, weight, bn, stride):
    gamma, beta, mean, variance = bn
    k, _, side, _ = weight.shape
    n, _, h, w = x.shape
    scale = gamma * torch.rsqrt(variance + EPS)
    columns = F.unfold(x, side, padding=side // 2, stride=stride)
    filters = (weight.view(k, -1) * scale.view(k, 1)).to(x.dtype)
    shift = (beta - mean * scale).to(x.dtype).view(1, k, 1)
    y = torch.baddbmm(shift, filters.expand(n, -1, -1), columns)
    return y.view(n, k, (h - 1) // stride + 1, (w - 1) // stride + 1)


def custom_kernel(data):
    x, w1, bn1, w2, bn2 = data[:5]
    stride = 2 if len(data) > 5 else 1
    y = conv_norm(F.relu(conv_norm(x, w1, bn1, stride)), w2, bn2, 1)
    shortcut = conv_norm(x, data[5], data[6], stride) if len(data) > 5 else x
    return F.relu(y + shortcut)
