import torch

CHUNK = 64


def custom_kernel(data):
    x, a, b, c = data
    batch, length, heads = x.shape[:3]
    chunks = length // CHUNK

    def by_chunk(value):
        return value.view(batch, chunks, CHUNK, heads, -1).transpose(2, 3)

    values, inputs, outputs = by_chunk(x), by_chunk(b), by_chunk(c)
    gain = by_chunk(a).cumsum(-2)
    last = gain[..., -1:, :]
    states = (inputs * (last - gain).exp()).transpose(-1, -2) @ values
    kept = last.exp()
    distance = 1
    while distance < chunks:
        near, far = slice(distance, None), slice(0, chunks - distance)
        states = torch.cat((states[:, :distance], torch.addcmul(states[:, near], kept[:, near], states[:, far])), dim=1)
        kept = torch.cat((kept[:, :distance], kept[:, near] * kept[:, far]), dim=1)
        distance *= 2
    earlier = torch.ones((CHUNK, CHUNK), device=x.device, dtype=torch.bool).tril()
    decay = torch.where(earlier, gain - gain.transpose(-1, -2), float("-inf")).exp_()
    y = torch.einsum("zchin,zchjn->zchij", outputs, inputs).mul_(decay) @ values
    y[:, 1:] += (outputs * gain.exp())[:, 1:] @ states[:, :-1]
    return y.transpose(2, 3).reshape(x.shape)
