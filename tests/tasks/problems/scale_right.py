import triton
import triton.language as tl


@triton.jit
def scale(x, out, factor, total, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < total
    tl.store(out + index, tl.load(x + index, inside) * factor, inside)


def custom_kernel(data):
    x, out, options = data
    assert x.t().is_contiguous()
    scale[(triton.cdiv(out.numel(), 32),)](x, out, options["factor"], out.numel(), BLOCK=32)
    return out
