"""A KernelBench problem: a linear layer, an activation and a learned scale."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.linear = nn.Linear(features, outputs)
        self.scale = nn.Parameter(torch.ones(outputs))

    def forward(self, x, factor):
        return torch.relu(self.linear(x)) * self.scale * factor


def get_inputs():
    return [torch.rand(7, 33), 1.5]


def get_init_inputs():
    return [33, 17]
