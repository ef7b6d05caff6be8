import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 64
NUM_WARPS = 8
NUM_STAGES = 3


@triton.jit
def swiglu_fused(
    x_ptr,
    gate_ptr,
    up_ptr,
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
    k = tl.arange(0, BLOCK_K)
    m_mask = (m < tokens)[:, None]
    n_mask = (n < hidden)[None, :]
    x_at = x_ptr + m.to(tl.int64)[:, None] * width + k[None, :]
    w_at = n.to(tl.int64)[None, :] * width + k[:, None]
    gate = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    up = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, width, BLOCK_K):
        inside = start + k < width
        x = tl.load(x_at + start, mask=m_mask & inside[None, :], other=0.0)
        w_mask = n_mask & inside[:, None]
        gate = tl.dot(x, tl.load(gate_ptr + w_at + start, mask=w_mask, other=0.0), gate)
        up = tl.dot(x, tl.load(up_ptr + w_at + start, mask=w_mask, other=0.0), up)
    y = gate * tl.sigmoid(gate) * up
    out_at = out_ptr + m.to(tl.int64)[:, None] * hidden + n[None, :]
    tl.store(out_at, y.to(out_ptr.dtype.element_ty), mask=m_mask & n_mask)


def custom_kernel(data):
    x, w_gate, w_up = data
    tokens, width = x.shape
    hidden = w_gate.shape[0]
    out = torch.empty((tokens, hidden), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(tokens, BLOCK_M), triton.cdiv(hidden, BLOCK_N))
    swiglu_fused[grid](
        x,
        w_gate,
        w_up,
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
