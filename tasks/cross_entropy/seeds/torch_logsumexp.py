import torch


def custom_kernel(data):
    logits, targets, grad_output = data
    index = targets[:, None]
    x = logits.float()
    lse = torch.logsumexp(x, dim=-1, keepdim=True)
    losses = (lse - x.gather(1, index)).squeeze(1)
    x.sub_(lse).exp_()
    columns = torch.arange(x.shape[1], device=x.device)
    x.sub_((columns == index).to(x.dtype))
    grad = torch.empty_like(logits)
    torch.mul(x, grad_output[:, None], out=x)
    return losses, grad.copy_(x)
