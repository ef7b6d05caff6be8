import torch
import torch.nn.functional as F

EPS = 1e-3


def fold(weight, bn):
    gamma, beta, mean, variance = bn
    scale = gamma * torch.rsqrt(variance + EPS)
    folded = (weight * scale.view(-1, 1, 1, 1)).to(weight.dtype)
    return folded.contiguous(memory_format=torch.channels_last), (beta - mean * scale).to(weight.dtype)


def custom_kernel(data):
    x, w_expand, bn1, w_depth, bn2, w_project, bn3 = data
    e, _, side, _ = w_depth.shape
    residual = w_project.shape[0] == x.shape[1]
    wide = x.contiguous(memory_format=torch.channels_last)
    y = F.silu(F.conv2d(wide, *fold(w_expand, bn1)))
    y = F.silu(F.conv2d(y, *fold(w_depth, bn2), stride=1 if residual else 2, padding=side // 2, groups=e))
    y = F.conv2d(y, *fold(w_project, bn3))
    return (y + wide if residual else y).contiguous()
