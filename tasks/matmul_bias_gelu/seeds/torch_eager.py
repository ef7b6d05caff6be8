import torch


def custom_kernel(data):
    x, weight, bias = data
    z = torch.addmm(bias, x, weight.t())
    return torch.nn.functional.gelu(z, approximate="tanh")
