import torch

BLOCK = 64


def custom_kernel(data):
    (x,) = data
    rows, n = x.shape
    blocks = torch.nn.functional.pad(x, (0, -n % BLOCK)).view(rows, -1, BLOCK)
    triangle = torch.ones((BLOCK, BLOCK), device=x.device).triu_()
    sums = torch.matmul(blocks, triangle)
    carry = torch.cumsum(sums[..., -1], dim=-1)
    sums[:, 1:] += carry[:, :-1, None]
    return sums.view(rows, -1)[:, :n].contiguous()
