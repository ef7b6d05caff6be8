import torch


def custom_kernel(data):
    x, weight, bias = data
    length = x.shape[-1]
    w = weight.float()
    wide = x.float()
    z = torch.addcmul(bias.float()[:, None], wide, w[:, 3, None])
    for lag in range(1, min(4, length)):
        z[..., lag:].addcmul_(wide[..., : length - lag], w[:, 3 - lag, None])
    return torch.nn.functional.silu(z).to(x.dtype)
