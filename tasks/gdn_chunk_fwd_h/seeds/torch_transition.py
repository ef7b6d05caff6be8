import torch

SPAN = 64


def custom_kernel(data):
    k, w, u, g = data
    batch, length, heads, key = k.shape
    value = u.shape[-1]
    chunks = length // SPAN
    count = batch * heads

    def by_chunk(x):
        x = x.view(batch, chunks, SPAN, heads, -1).permute(1, 0, 3, 2, 4)
        return x.reshape(chunks * count, SPAN, -1)

    gain = by_chunk(g)
    last = gain[:, -1:]
    keys = (by_chunk(k) * (last - gain).exp()).transpose(1, 2)
    erasers, values = by_chunk(w), by_chunk(u)
    added = torch.bmm(keys, values).view(chunks, count, key, value)
    transition = torch.bmm(keys, erasers).neg_()
    transition.diagonal(dim1=1, dim2=2).add_(last.exp()[:, 0])
    transition = transition.view(chunks, count, key, key)
    states = torch.empty((chunks, count, key, value), device=k.device, dtype=k.dtype)
    states[0].zero_()
    for c in range(chunks - 1):
        torch.baddbmm(added[c], transition[c], states[c], out=states[c + 1])
    news = torch.baddbmm(values, erasers, states.view(-1, key, value), alpha=-1.0)
    h = states.view(chunks, batch, heads, key, value).transpose(0, 1).contiguous()
    v_new = news.view(chunks, batch, heads, SPAN, value).permute(1, 0, 3, 2, 4).reshape(u.shape)
    return h, v_new
