import torch

SPAN = 64


def custom_kernel(data):
    k, v, beta, a, g = data
    batch, length, heads, key = k.shape
    chunks = length // SPAN
    both = torch.cat((k * g.exp()[..., None], v), dim=-1).mul_(beta[..., None])
    both = both.view(batch, chunks, SPAN, heads, -1)
    out = torch.einsum("bnihj,bnjhd->bnihd", a.view(batch, chunks, SPAN, heads, SPAN), both)
    out = out.reshape(batch, length, heads, -1)
    return out[..., :key].contiguous(), out[..., key:].contiguous()
