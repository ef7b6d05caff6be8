import torch


def custom_kernel(data):
    q, k, cos, sin = data
    half = q.shape[-1] // 2
    joined = torch.cat((q, k), dim=2)
    out = torch.empty_like(joined)
    first, second = joined[..., :half], joined[..., half:]
    c, s = cos[:, None, :], sin[:, None, :]
    out[..., :half] = torch.addcmul(first * c, second, s, value=-1.0)
    out[..., half:] = torch.addcmul(second * c, first, s)
    return out[:, :, : q.shape[2]].contiguous(), out[:, :, q.shape[2] :].contiguous()
