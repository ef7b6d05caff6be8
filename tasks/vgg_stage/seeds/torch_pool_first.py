import torch
import torch.nn.functional as F


def custom_kernel(data):
    x, w1, b1, w2, b2 = data
    y = F.relu(F.conv2d(x, w1, b1, padding=1), inplace=True)
    y = F.max_pool2d(F.conv2d(y, w2, padding=1), 2)
    return torch.relu_(y.add_(b2.view(1, -1, 1, 1)))
