import torch

K = 8
CHUNK = 1024


def custom_kernel(data):
    (x,) = data
    rows, n = x.shape
    if n <= CHUNK:
        values, indices = torch.topk(x, K, dim=-1)
        return values, indices
    wide = torch.nn.functional.pad(x, (0, -n % CHUNK), value=float("-inf"))
    parts = wide.view(rows, -1, CHUNK)
    candidates, places = torch.topk(parts, K, dim=-1, sorted=False)
    places += torch.arange(parts.shape[1], device=x.device)[:, None] * CHUNK
    values, chosen = torch.topk(candidates.view(rows, -1), K, dim=-1)
    return values, places.view(rows, -1).gather(1, chosen)
