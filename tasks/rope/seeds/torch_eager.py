import torch


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def custom_kernel(data):
    q, k, cos, sin = data
    cos = torch.cat((cos, cos), dim=-1)[None, :, None, :]
    sin = torch.cat((sin, sin), dim=-1)[None, :, None, :]
    q_wide = q.float()
    k_wide = k.float()
    q_out = q_wide * cos + rotate_half(q_wide) * sin
    k_out = k_wide * cos + rotate_half(k_wide) * sin
    return q_out.to(q.dtype), k_out.to(k.dtype)
