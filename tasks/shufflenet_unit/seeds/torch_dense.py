import torch
import torch.nn.functional as F

EPS = 1e-5


def scale_shift(bn):
    gamma, beta, mean, variance = bn
    scale = gamma * torch.rsqrt(variance + EPS)
    return scale, beta - mean * scale


def block_diagonal(weight, scale, groups):
    rows, columns = weight.shape[0] // groups, weight.shape[1]
    blocks = (weight.flatten(1) * scale[:, None]).to(weight.dtype).view(groups, rows, columns)
    dense = torch.zeros((groups, rows, groups, columns), device=weight.device, dtype=weight.dtype)
    dense.diagonal(dim1=0, dim2=2).copy_(blocks.permute(1, 2, 0))
    return dense


def custom_kernel(data):
    x, w1, bn1, w_depth, bn2, w2, bn3 = data
    n, c, h, w = x.shape
    m = w1.shape[0]
    groups = c // w1.shape[1]
    scale, shift = scale_shift(bn1)
    shuffled = block_diagonal(w1, scale, groups).transpose(0, 1).reshape(m, c)
    y = torch.matmul(shuffled, x.view(n, c, h * w))
    y = torch.relu_(y.add_(shift.view(groups, -1).t().reshape(m, 1).to(x.dtype)))
    scale, shift = scale_shift(bn2)
    depth = (w_depth * scale.view(-1, 1, 1, 1)).to(x.dtype)
    y = F.conv2d(y.view(n, m, h, w), depth, shift.to(x.dtype), padding=1, groups=m)
    scale, shift = scale_shift(bn3)
    y = torch.matmul(block_diagonal(w2, scale, groups).view(c, m), y.reshape(n, m, h * w)).view(n, c, h, w)
    return torch.relu_(y.add_(shift.view(-1, 1, 1).to(x.dtype)).add_(x))
