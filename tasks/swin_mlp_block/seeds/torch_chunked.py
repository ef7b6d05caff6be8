import torch
import torch.nn.functional as F

EPS = 1e-5
IMAGES = 4
TOKENS = 16384


def mix(x, gamma, beta, w_mix, b_mix):
    n, h, w, c = x.shape
    p = w_mix.shape[1]
    heads = w_mix.shape[0] // p
    side = round(p**0.5)
    y = F.layer_norm(x, (c,), gamma, beta, EPS)
    y = y.view(n, h // side, side, w // side, side, heads, c // heads).permute(0, 1, 3, 5, 2, 4, 6)
    y = F.conv1d(y.reshape(-1, heads * p, c // heads), w_mix, b_mix, groups=heads)
    y = y.view(n, h // side, w // side, heads, side, side, c // heads).permute(0, 1, 4, 2, 5, 3, 6)
    return y.reshape(n, h, w, c)


def custom_kernel(data):
    x, gamma1, beta1, w_mix, b_mix, gamma2, beta2, w_up, b_up, w_down, b_down = data
    c = x.shape[-1]
    out = torch.empty(x.shape, device=x.device, dtype=x.dtype)
    for part, target in zip(x.split(IMAGES), out.split(IMAGES), strict=True):
        torch.add(part, mix(part, gamma1, beta1, w_mix, b_mix), out=target)
    for part in out.view(-1, c).split(TOKENS):
        y = F.linear(F.layer_norm(part, (c,), gamma2, beta2, EPS), w_up, b_up)
        part += F.linear(F.gelu(y), w_down, b_down)
    return out
