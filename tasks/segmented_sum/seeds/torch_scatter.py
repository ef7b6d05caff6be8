import torch


def custom_kernel(data):
    x, ids, offsets = data
    out = torch.zeros((offsets.shape[0] - 1, x.shape[1]), device=x.device, dtype=x.dtype)
    return out.scatter_add_(0, ids[:, None].expand_as(x), x)
