import torch
import torch.nn.functional as F

EPS = 1e-5


def scale_shift(bn, dtype):
    gamma, beta, mean, variance = bn
    scale = gamma * torch.rsqrt(variance + EPS)
    return scale.view(-1, 1, 1, 1), (beta - mean * scale).to(dtype)


def grouped(x, weight, bn, groups):
    n, _, h, w = x.shape
    scale, shift = scale_shift(bn, x.dtype)
    filters = (weight * scale).to(x.dtype).view(groups, -1, weight.shape[1])
    y = torch.matmul(filters, x.reshape(n, groups, -1, h * w))
    return y.add_(shift.view(groups, -1, 1)).view(n, -1, h, w)


def custom_kernel(data):
    x, w1, bn1, w_depth, bn2, w2, bn3 = data
    m = w1.shape[0]
    groups = x.shape[1] // w1.shape[1]
    y = torch.relu_(grouped(x, w1, bn1, groups))
    channel = torch.arange(m, device=x.device)
    y = y.index_select(1, channel % groups * (m // groups) + channel // groups)
    scale, shift = scale_shift(bn2, x.dtype)
    y = F.conv2d(y, (w_depth * scale).to(x.dtype), shift, padding=1, groups=m)
    return torch.relu_(grouped(y, w2, bn3, groups).add_(x))
