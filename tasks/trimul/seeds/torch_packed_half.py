import torch

EPS = 1e-5
FACTOR_TYPE = torch.float16
SUM_TYPE = torch.bfloat16


def custom_kernel(data):
    x, mask, norm_w, norm_b, w_left, w_right, w_left_gate, w_right_gate, w_gate, out_norm_w, out_norm_b, w_out = data
    batch, n, _, dim = x.shape
    hidden = w_left.shape[0]
    linear, layer_norm = torch.nn.functional.linear, torch.nn.functional.layer_norm
    packed = torch.cat((w_left, w_right, w_left_gate, w_right_gate, w_gate)).to(FACTOR_TYPE)
    rows = layer_norm(x, norm_w.shape, norm_w, norm_b, EPS).to(FACTOR_TYPE).view(-1, dim)
    projected = linear(rows, packed)
    edges = projected[:, : 2 * hidden] * projected[:, 2 * hidden : 4 * hidden].sigmoid() * mask.view(-1, 1)
    channels = edges.to(SUM_TYPE).view(batch, n, n, 2, hidden).permute(3, 0, 4, 1, 2).contiguous()
    sums = channels[0] @ channels[1].transpose(-1, -2)
    sums = sums.permute(0, 2, 3, 1).float().reshape(-1, hidden)
    gated = layer_norm(sums, out_norm_w.shape, out_norm_w, out_norm_b, EPS) * projected[:, 4 * hidden :].sigmoid()
    return linear(gated.to(FACTOR_TYPE), w_out.to(FACTOR_TYPE)).float().view(x.shape)
