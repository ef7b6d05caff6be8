import torch
import torch.nn.functional as F


def custom_kernel(data):
    x, weight, bias = data
    n, _, h, w = x.shape
    k = weight.shape[0]
    columns = F.unfold(x, 3, padding=1)
    filters = weight.view(1, k, -1).expand(n, -1, -1)
    y = torch.baddbmm(bias.view(1, k, 1), filters, columns)
    return y.view(n, k, h, w)
