import torch.nn.functional as F


def custom_kernel(data):
    x, weight, bias = data
    n, c, h, w = x.shape
    k = weight.shape[0]
    padded = F.pad(x.float(), (1, 1, 1, 1))
    taps = weight.float().permute(2, 3, 0, 1).contiguous()
    total = bias.float().view(1, k, 1).repeat(n, 1, h * w)
    for dy in range(3):
        for dx in range(3):
            window = padded[:, :, dy : dy + h, dx : dx + w].reshape(n, c, h * w)
            total.baddbmm_(taps[dy, dx].expand(n, k, c), window)
    return total.view(n, k, h, w).to(x.dtype)
