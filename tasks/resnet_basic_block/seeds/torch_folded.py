import torch
import torch.nn.functional as F

EPS = 1e-5


def fold(weight, bn):
    gamma, beta, mean, variance = bn
    scale = gamma * torch.rsqrt(variance + EPS)
    return (weight * scale.view(-1, 1, 1, 1)).to(weight.dtype), (beta - mean * scale).to(weight.dtype)


def custom_kernel(data):
    x, w1, bn1, w2, bn2 = data[:5]
    stride = 2 if len(data) > 5 else 1
    y = F.conv2d(x, *fold(w1, bn1), stride=stride, padding=1).relu_()
    y = F.conv2d(y, *fold(w2, bn2), padding=1)
    y += F.conv2d(x, *fold(data[5], data[6]), stride=stride) if len(data) > 5 else x
    return y.relu_()
