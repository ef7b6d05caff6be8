import torch

BLOCK = 256


def custom_kernel(data):
    (x,) = data
    rows, n = x.shape
    blocks = torch.nn.functional.pad(x, (0, -n % BLOCK)).view(rows, -1, BLOCK)
    sums = torch.cumsum(blocks, dim=-1)
    ends = sums[..., -1]
    carry = torch.cumsum(ends, dim=-1) - ends
    return (sums + carry[..., None]).view(rows, -1)[:, :n].contiguous()
