import torch

FP8_MAX = 448.0
FLOOR = 1e-10


def custom_kernel(data):
    x, x_q, x_s = data
    shape = (x.shape[0], x_s.shape[1], x.shape[1] // x_s.shape[1])
    groups = x.view(shape)
    low, high = torch.aminmax(groups, dim=-1)
    torch.maximum(low.neg_(), high, out=x_s)
    x_s.clamp_(min=FLOOR).div_(FP8_MAX)
    out = x_q.view(shape)
    torch.mul(groups, x_s.reciprocal()[..., None], out=out)
    out.clamp_(-FP8_MAX, FP8_MAX)
    return x_q, x_s
