import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 64
NUM_WARPS = 8
NUM_STAGES = 3


@triton.jit
def swiglu_interleaved(
    x_ptr,
    w_ptr,
    out_ptr,
    tokens,
    hidden,
    width,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    pairs = tl.program_id(1) * BLOCK_N + tl.arange(0, 2 * BLOCK_N) // 2
    rows = pairs + (tl.arange(0, 2 * BLOCK_N) % 2) * hidden
    both = tl.zeros([BLOCK_M, 2 * BLOCK_N], dtype=tl.float32)
    for start in range(0, width, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x_at = x_ptr + m.to(tl.int64)[:, None] * width + k[None, :]
        x = tl.load(x_at, mask=(m < tokens)[:, None] & (k < width)[None, :], other=0.0)
        w_at = w_ptr + rows.to(tl.int64)[None, :] * width + k[:, None]
        w = tl.load(w_at, mask=(pairs < hidden)[None, :] & (k < width)[:, None], other=0.0)
        both = tl.dot(x, w, both)
    gate, up = tl.split(tl.reshape(both, [BLOCK_M, BLOCK_N, 2]))
    y = gate / (1.0 + tl.exp(-gate)) * up
    out_at = out_ptr + m.to(tl.int64)[:, None] * hidden + n[None, :]
    tl.store(out_at, y.to(out_ptr.dtype.element_ty), mask=(m < tokens)[:, None] & (n < hidden)[None, :])


def custom_kernel(data):
    x, w_gate, w_up = data
    tokens, width = x.shape
    hidden = w_gate.shape[0]
    weights = torch.empty((2, hidden, width), device=x.device, dtype=x.dtype)
    weights[0].copy_(w_gate)
    weights[1].copy_(w_up)
    out = torch.empty((tokens, hidden), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(tokens, BLOCK_M), triton.cdiv(hidden, BLOCK_N))
    swiglu_interleaved[grid](
        x,
        weights,
        out,
        tokens,
        hidden,
        width,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
