import torch


def custom_kernel(data):
    (x,) = data
    h = x.float()
    shifted = h - h.amax(dim=-1, keepdim=True)
    e = torch.exp(shifted)
    return (e / e.sum(dim=-1, keepdim=True)).to(x.dtype)
