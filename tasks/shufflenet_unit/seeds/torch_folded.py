import torch
import torch.nn.functional as F

EPS = 1e-5


def fold(weight, bn):
    gamma, beta, mean, variance = bn
    scale = gamma * torch.rsqrt(variance + EPS)
    return (weight * scale.view(-1, 1, 1, 1)).to(weight.dtype), (beta - mean * scale).to(weight.dtype)


def custom_kernel(data):
    x, w1, bn1, w_depth, bn2, w2, bn3 = data
    m = w1.shape[0]
    groups = x.shape[1] // w1.shape[1]
    y = F.relu(F.conv2d(x, *fold(w1, bn1), groups=groups), inplace=True)
    y = y.unflatten(1, (groups, m // groups)).transpose(1, 2).flatten(1, 2)
    y = F.conv2d(y, *fold(w_depth, bn2), padding=1, groups=m)
    y = F.conv2d(y, *fold(w2, bn3), groups=groups)
    return y.add_(x).relu_()
