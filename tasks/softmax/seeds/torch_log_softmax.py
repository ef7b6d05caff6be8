import torch


def custom_kernel(data):
    (x,) = data
    out = torch.log_softmax(x, dim=-1, dtype=torch.float32)
    return out.exp_().to(x.dtype)
