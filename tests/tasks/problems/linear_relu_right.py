import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def epilogue(product, bias, scale, out, columns, total, factor, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < total
    value = tl.load(product + index, inside) + tl.load(bias + index % columns, inside)
    value = tl.maximum(value, 0.0) * tl.load(scale + index % columns, inside) * factor
    tl.store(out + index, value, inside)


class ModelNew(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.factors = nn.Parameter(torch.empty(outputs))
        self.weight = nn.Parameter(torch.empty(outputs, features))
        self.shift = nn.Parameter(torch.empty(outputs))

    def forward(self, x, factor):
        product = x @ self.weight.t()
        out = torch.empty_like(product)
        epilogue[(triton.cdiv(out.numel(), 64),)](
            product, self.shift, self.factors, out, out.shape[1], out.numel(), factor, BLOCK=64
        )
        return out
