import torch

SPAN = 64


def custom_kernel(data):
    q, k, v_new, h, g = data
    batch, length, heads, key = q.shape
    chunks = length // SPAN

    def by_chunk(x):
        return x.view(batch, chunks, SPAN, heads, -1).transpose(2, 3)

    gain = by_chunk(g)
    queries = by_chunk(q) * key**-0.5
    earlier = torch.ones((SPAN, SPAN), device=q.device, dtype=torch.bool).tril()
    decay = torch.where(earlier, gain - gain.transpose(-1, -2), float("-inf")).exp_()
    weights = torch.einsum("nchid,nchjd->nchij", queries, by_chunk(k)).mul_(decay)
    left = torch.cat((queries * gain.exp(), weights), dim=-1)
    right = torch.cat((h, by_chunk(v_new)), dim=-2)
    return (left @ right).transpose(2, 3).reshape(v_new.shape)
