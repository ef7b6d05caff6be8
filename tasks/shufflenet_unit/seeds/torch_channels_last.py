import torch
import torch.nn.functional as F

EPS = 1e-5


def fold(weight, bn):
    gamma, beta, mean, variance = bn
    scale = gamma * torch.rsqrt(variance + EPS)
    folded = (weight * scale.view(-1, 1, 1, 1)).to(weight.dtype)
    return folded.contiguous(memory_format=torch.channels_last), (beta - mean * scale).to(weight.dtype)


def custom_kernel(data):
    x, w1, bn1, w_depth, bn2, w2, bn3 = data
    n, c, h, w = x.shape
    m = w1.shape[0]
    groups = c // w1.shape[1]
    wide = x.contiguous(memory_format=torch.channels_last)
    y = torch.relu(F.conv2d(wide, *fold(w1, bn1), groups=groups))
    y = y.permute(0, 2, 3, 1).reshape(n, h, w, groups, m // groups).transpose(3, 4)
    y = y.reshape(n, h, w, m).permute(0, 3, 1, 2)
    y = F.conv2d(y, *fold(w_depth, bn2), padding=1, groups=m)
    y = F.conv2d(y, *fold(w2, bn3), groups=groups)
    return torch.relu(y + wide).contiguous()
