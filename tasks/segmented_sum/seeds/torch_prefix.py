import torch


def custom_kernel(data):
    x, _, offsets = data
    columns = torch.zeros((x.shape[1], x.shape[0] + 1), device=x.device, dtype=torch.float64)
    columns[:, 1:].copy_(x.t())
    prefix = torch.cumsum(columns, dim=1)
    ends = prefix.index_select(1, offsets)
    return (ends[:, 1:] - ends[:, :-1]).t().to(x.dtype).contiguous()
