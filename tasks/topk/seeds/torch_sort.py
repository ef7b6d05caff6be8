import torch

K = 8


def custom_kernel(data):
    (x,) = data
    values, indices = torch.sort(x, dim=-1, descending=True)
    return values[:, :K].contiguous(), indices[:, :K].contiguous()
