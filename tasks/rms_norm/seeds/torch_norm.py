import torch

EPS = 1e-6


def custom_kernel(data):
    x, weight = data
    n = x.shape[-1]
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    scale = torch.addcmul(torch.full_like(norm, EPS), norm, norm, value=1.0 / n).rsqrt_()
    out = torch.mul(x, scale)
    return out.mul_(weight.float()).to(x.dtype)
