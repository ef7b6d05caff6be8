import torch

ROWS = 256


def custom_kernel(data):
    q, k, v = data
    length, dim = q.shape[2:]
    keys = k.float().transpose(2, 3)
    out = torch.empty_like(q)
    bias = torch.full((ROWS, ROWS), float("-inf"), device=q.device).triu_(1)
    for start in range(0, length, ROWS):
        end = min(start + ROWS, length)
        scores = torch.matmul(q[:, :, start:end].float() * dim**-0.5, keys[..., :end])
        scores[..., start:] += bias[: end - start, : end - start]
        peak = scores.amax(-1, keepdim=True)
        weights = scores.sub_(peak).exp_()
        total = weights.sum(-1, keepdim=True)
        out[:, :, start:end] = torch.matmul(weights.to(v.dtype), v[:, :, :end]) / total
    return out
