import torch

ROWS = 2048
SLOPE = 2.0 * 0.7978845608028654
CUBIC = 0.044715


def custom_kernel(data):
    x, weight, bias = data
    out = torch.empty((x.shape[0], weight.shape[0]), device=x.device, dtype=x.dtype)
    for rows, target in zip(x.split(ROWS), out.split(ROWS), strict=True):
        z = torch.mm(rows, weight.t()).float().add_(bias)
        gate = z.square().mul_(CUBIC).add_(1.0).mul_(z).mul_(SLOPE).sigmoid_()
        torch.mul(z, gate, out=z)
        target.copy_(z)
    return out
