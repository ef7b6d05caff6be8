import torch


def custom_kernel(data):
    q, k, v = data
    length, dim = q.shape[2:]
    scores = torch.matmul(q.float(), k.float().transpose(-1, -2)).mul_(dim**-0.5)
    hidden = torch.ones((length, length), device=q.device, dtype=torch.bool).triu_(1)
    weights = torch.softmax(scores.masked_fill_(hidden, float("-inf")), dim=-1)
    return torch.matmul(weights.to(v.dtype), v)
