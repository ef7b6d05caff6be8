import torch

ROWS = 512


def custom_kernel(data):
    x, a, b, c = data
    batch, length = x.shape[:2]
    gain = a.cumsum(1).transpose(1, 2)
    position = torch.arange(length, device=x.device)
    y = torch.empty_like(x)
    for i in range(batch):
        values, inputs, outputs = (value[i].transpose(0, 1) for value in (x, b, c))
        for start in range(0, length, ROWS):
            end = min(start + ROWS, length)
            weights = outputs[:, start:end] @ inputs[:, :end].transpose(1, 2)
            later = position[None, :end] > position[start:end, None]
            gap = gain[i, :, start:end, None] - gain[i, :, None, :end]
            weights.mul_(gap.masked_fill_(later, float("-inf")).exp_())
            y[i, start:end] = torch.bmm(weights, values[:, :end]).transpose(0, 1)
    return y
