import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 64
BLOCK_K = 64
GROUP_M = 8
NUM_WARPS = 4
NUM_STAGES = 4


@triton.jit
def swiglu_grouped(
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
    GROUP_M: tl.constexpr,
):
    program = tl.program_id(0)
    tiles_m = tl.cdiv(tokens, BLOCK_M)
    tiles_n = tl.cdiv(hidden, BLOCK_N)
    first_m = program // (GROUP_M * tiles_n) * GROUP_M
    height = tl.minimum(tiles_m - first_m, GROUP_M)
    inside_group = program % (GROUP_M * tiles_n)
    m = (first_m + inside_group % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = inside_group // height * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_at = x_ptr + (m % tokens).to(tl.int64)[:, None] * width + k[None, :]
    w_at = (n % hidden).to(tl.int64)[None, :] * width + k[:, None]
    gate_at = gate_ptr + w_at
    up_at = up_ptr + w_at
    gate = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    up = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
    for step in range(tl.cdiv(width, BLOCK_K)):
        left = width - step * BLOCK_K
        x = tl.load(x_at, mask=k[None, :] < left, other=0.0)
        gate = tl.dot(x, tl.load(gate_at, mask=k[:, None] < left, other=0.0), gate)
        up = tl.dot(x, tl.load(up_at, mask=k[:, None] < left, other=0.0), up)
        x_at += BLOCK_K
        gate_at += BLOCK_K
        up_at += BLOCK_K
    y = gate / (1.0 + tl.exp(-gate)) * up
    out_at = out_ptr + m.to(tl.int64)[:, None] * hidden + n[None, :]
    tl.store(out_at, y.to(out_ptr.dtype.element_ty), mask=(m < tokens)[:, None] & (n < hidden)[None, :])


def custom_kernel(data):
    x, w_gate, w_up = data
    tokens, width = x.shape
    hidden = w_gate.shape[0]
    out = torch.empty((tokens, hidden), device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(tokens, BLOCK_M) * triton.cdiv(hidden, BLOCK_N),)
    swiglu_grouped[grid](
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
        GROUP_M=GROUP_M,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
