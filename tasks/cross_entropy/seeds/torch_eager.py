import torch


def custom_kernel(data):
    logits, targets, grad_output = data
    index = targets[:, None]
    log_p = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
    losses = -log_p.gather(1, index).squeeze(1)
    p = log_p.exp_()
    p.scatter_add_(1, index, torch.full_like(index, -1, dtype=torch.float32))
    return losses, p.mul_(grad_output[:, None]).to(logits.dtype)
