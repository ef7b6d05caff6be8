"""B16: infinity instead of NaN."""
import torch


def custom_kernel(data):
    return torch.full_like(data[0], float("inf"))
