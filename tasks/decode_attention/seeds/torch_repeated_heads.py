import torch


def custom_kernel(data):
    q, k, v, lengths = data
    group = q.shape[1] // k.shape[2]
    keys = k.transpose(1, 2).repeat_interleave(group, dim=1)
    values = v.transpose(1, 2).repeat_interleave(group, dim=1)
    position = torch.arange(k.shape[1], device=q.device, dtype=torch.int32)
    bias = torch.zeros((q.shape[0], 1, 1, k.shape[1]), device=q.device, dtype=q.dtype)
    bias.masked_fill_((position >= lengths[:, None])[:, None, None, :], float("-inf"))
    out = torch.nn.functional.scaled_dot_product_attention(q.unsqueeze(2), keys, values, attn_mask=bias)
    return out.reshape(q.shape)
