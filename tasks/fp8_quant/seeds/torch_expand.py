import torch

FP8_MAX = 448.0
FLOOR = 1e-10


def custom_kernel(data):
    x, x_q, x_s = data
    tokens, width = x.shape
    groups = x_s.shape[1]
    magnitude = torch.linalg.vector_norm(x.reshape(tokens * groups, -1), ord=float("inf"), dim=1)
    scales = magnitude.clamp_min_(FLOOR).div_(FP8_MAX).reshape(tokens, groups)
    wide = scales[:, :, None].expand(tokens, groups, width // groups).reshape(tokens, width)
    torch.div(x, wide, out=x_q)
    x_q.clamp_(-FP8_MAX, FP8_MAX)
    x_s.copy_(scales)
    return x_q, x_s
