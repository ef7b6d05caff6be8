import torch


def custom_kernel(data):
    a, b = data
    out = torch.nn.functional.linear(b.t(), a)
    return out.t().contiguous()
