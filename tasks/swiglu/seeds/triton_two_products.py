import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 256
BLOCK_K = 64
NUM_WARPS = 8
NUM_STAGES = 3


@triton.jit
def project(
    x_ptr,
    w_ptr,
    gate_ptr,
    out_ptr,
    tokens,
    hidden,
    width,
    SECOND: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    x_row = x_ptr + m.to(tl.int64)[:, None] * width
    w_row = w_ptr + n.to(tl.int64)[None, :] * width
    mask = (m < tokens)[:, None] & (n < hidden)[None, :]
    total = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for start in range(0, width, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_row + k[None, :], mask=(m < tokens)[:, None] & (k < width)[None, :], other=0.0)
        w = tl.load(w_row + k[:, None], mask=(n < hidden)[None, :] & (k < width)[:, None], other=0.0)
        total = tl.dot(x, w, total)
    at = m.to(tl.int64)[:, None] * hidden + n[None, :]
    if SECOND:
        y = total * tl.load(gate_ptr + at, mask=mask, other=0.0).to(tl.float32)
    else:
        y = total / (1.0 + tl.exp(-total))
    tl.store(out_ptr + at, y.to(out_ptr.dtype.element_ty), mask=mask)


def custom_kernel(data):
    x, w_gate, w_up = data
    tokens, width = x.shape
    hidden = w_gate.shape[0]
    gate = torch.empty((tokens, hidden), device=x.device, dtype=x.dtype)
    out = torch.empty_like(gate)
    grid = (triton.cdiv(hidden, BLOCK_N), triton.cdiv(tokens, BLOCK_M))
    for second, weight, target in ((False, w_gate, gate), (True, w_up, out)):
        project[grid](
            x,
            weight,
            gate,
            target,
            tokens,
            hidden,
            width,
            SECOND=second,
            BLOCK_M=BLOCK_M,
            BLOCK_N=BLOCK_N,
            BLOCK_K=BLOCK_K,
            num_warps=NUM_WARPS,
            num_stages=NUM_STAGES,
        )
    return out
