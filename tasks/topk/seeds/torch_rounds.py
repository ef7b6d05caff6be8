import torch

K = 8


def custom_kernel(data):
    (x,) = data
    rest = x.clone()
    values = torch.empty((x.shape[0], K), device=x.device, dtype=x.dtype)
    indices = torch.empty((x.shape[0], K), device=x.device, dtype=torch.int64)
    for place in range(K):
        value, index = rest.max(dim=-1, keepdim=True)
        values[:, place : place + 1] = value
        indices[:, place : place + 1] = index
        rest.scatter_(1, index, float("-inf"))
    return values, indices
