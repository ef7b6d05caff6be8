import torch

COLUMN_BLOCKS = 2


def custom_kernel(data):
    a, b = data
    width = (b.shape[1] + COLUMN_BLOCKS - 1) // COLUMN_BLOCKS
    zero = torch.zeros((), device=a.device, dtype=a.dtype)
    parts = [torch.addmm(zero, a, columns.contiguous(), beta=0) for columns in b.split(width, dim=1)]
    return torch.cat(parts, dim=1)
