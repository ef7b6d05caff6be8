import torch

FP8_MAX = 448.0
FLOOR = 1e-10


def custom_kernel(data):
    x, x_q, x_s = data
    groups = x.unflatten(1, (x_s.shape[1], -1))
    scales = torch.abs(groups).amax(dim=-1).clamp(min=FLOOR) / FP8_MAX
    quantised = (groups / scales.unsqueeze(-1)).clamp(-FP8_MAX, FP8_MAX)
    x_s.copy_(scales)
    x_q.copy_(quantised.flatten(1))
    return x_q, x_s
