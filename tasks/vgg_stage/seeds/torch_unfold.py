import torch
import torch.nn.functional as F


def convolve(x, weight, bias):
    n, _, h, w = x.shape
    k = weight.shape[0]
    y = torch.baddbmm(bias.view(1, k, 1), weight.view(k, -1).expand(n, -1, -1), F.unfold(x, 3, padding=1))
    return y.view(n, k, h, w).relu_()


def custom_kernel(data):
    x, w1, b1, w2, b2 = data
    y = convolve(convolve(x, w1, b1), w2, b2)
    n, k, h, w = y.shape
    rows, cols = h // 2, w // 2
    y = y[:, :, : 2 * rows, : 2 * cols].reshape(n, k, rows, 2, cols, 2)
    return y.amax((3, 5))
