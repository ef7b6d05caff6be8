import torch


def custom_kernel(data):
    x, w_gate, w_up = data
    gate = torch.mm(x, w_gate.t())
    up = torch.mm(x, w_up.t())
    return gate.mul_(torch.sigmoid(gate)).mul_(up)
