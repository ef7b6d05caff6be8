import torch
import torch.nn.functional as F

EPS = 1e-3
CHUNK = 8


def fold(weight, bn):
    gamma, beta, mean, variance = bn
    scale = gamma * torch.rsqrt(variance + EPS)
    return (weight * scale.view(-1, 1, 1, 1)).to(weight.dtype), (beta - mean * scale).to(weight.dtype)


def custom_kernel(data):
    x, w_expand, bn1, w_depth, bn2, w_project, bn3 = data
    n, c, h, w = x.shape
    e, _, side, _ = w_depth.shape
    k = w_project.shape[0]
    stride = 1 if k == c else 2
    expand, depth, project = fold(w_expand, bn1), fold(w_depth, bn2), fold(w_project, bn3)
    out = torch.empty((n, k, (h - 1) // stride + 1, (w - 1) // stride + 1), device=x.device, dtype=x.dtype)
    for part, target in zip(x.split(CHUNK), out.split(CHUNK), strict=True):
        y = F.silu(F.conv2d(part, *expand), inplace=True)
        y = F.silu(F.conv2d(y, *depth, stride=stride, padding=side // 2, groups=e), inplace=True)
        y = F.conv2d(y, *project)
        if k == c:
            torch.add(y, part, out=target)
        else:
            target.copy_(y)
    return out
