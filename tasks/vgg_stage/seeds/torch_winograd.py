import torch
import torch.nn.functional as F


def filter_transform(g):
    first, second, third = g.unbind(-1)
    even, odd = (first + third) * 0.5, second * 0.5
    return torch.stack((first, even + odd, even - odd, third), -1)


def tile_transform(d):
    a, b, c, e = d.unbind(-1)
    return torch.stack((a - c, b + c, c - b, b - e), -1)


def result_transform(m):
    a, b, c, e = m.unbind(-1)
    return torch.stack((a + b + c, b - c - e), -1)


def both(transform, value):
    return transform(transform(value).transpose(-1, -2)).transpose(-1, -2)


def custom_kernel(data):
    x, w1, b1, w2, b2 = data
    y = F.conv2d(x, w1, b1, padding=1).relu_()
    n, k, h, w = y.shape
    rows, cols = h // 2, w // 2
    padded = F.pad(y, (1, 1, 1, 1))[:, :, : 2 * rows + 2, : 2 * cols + 2].float()
    tiles = padded.unfold(2, 4, 2).unfold(3, 4, 2)
    tiles = both(tile_transform, tiles).permute(4, 5, 1, 0, 2, 3).reshape(16, k, n * rows * cols)
    filters = both(filter_transform, w2.float()).permute(2, 3, 0, 1).reshape(16, k, k)
    sums = torch.bmm(filters, tiles).view(4, 4, k, n, rows, cols).permute(3, 2, 4, 5, 0, 1)
    best = both(result_transform, sums).amax((4, 5)) + b2.float().view(1, k, 1, 1)
    return best.relu_().to(x.dtype).contiguous()
