import torch

ROWS = 512


def custom_kernel(data):
    a, b = data
    out = torch.empty((a.shape[0], b.shape[1]), device=a.device, dtype=a.dtype)
    for rows, target in zip(a.split(ROWS), out.split(ROWS), strict=True):
        torch.mm(rows, b, out=target)
    return out
