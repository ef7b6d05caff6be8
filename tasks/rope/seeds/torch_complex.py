import torch


def custom_kernel(data):
    q, k, cos, sin = data
    turn = torch.complex(cos, sin)[:, None, :]
    results = []
    for x in (q, k):
        half = x.shape[-1] // 2
        turned = torch.complex(x[..., :half].float(), x[..., half:].float()) * turn
        out = torch.empty_like(x)
        out[..., :half].copy_(turned.real)
        out[..., half:].copy_(turned.imag)
        results.append(out)
    return tuple(results)
