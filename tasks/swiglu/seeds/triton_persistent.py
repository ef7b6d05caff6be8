import torch
import triton
import triton.language as tl

PROGRAMS = 132
BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 32
NUM_WARPS = 8
NUM_STAGES = 4


@triton.jit
def swiglu_persistent(
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
    tiles_m = tl.cdiv(tokens, BLOCK_M)
    tiles = tiles_m * tl.cdiv(hidden, BLOCK_N)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        m = tile % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tile // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)
        x_row = x_ptr + m.to(tl.int64)[:, None] * width
        w_row = n.to(tl.int64)[None, :] * width
        gate = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
        up = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
        for start in range(0, width, BLOCK_K):
            k = start + tl.arange(0, BLOCK_K)
            x = tl.load(x_row + k[None, :], mask=(m < tokens)[:, None] & (k < width)[None, :], other=0.0)
            w_mask = (n < hidden)[None, :] & (k < width)[:, None]
            gate = tl.dot(x, tl.load(gate_ptr + w_row + k[:, None], mask=w_mask, other=0.0), gate)
            up = tl.dot(x, tl.load(up_ptr + w_row + k[:, None], mask=w_mask, other=0.0), up)
        y = gate * tl.sigmoid(gate) * up
        out_at = out_ptr + m.to(tl.int64)[:, None] * hidden + n[None, :]
        tl.store(out_at, y.to(out_ptr.dtype.element_ty), mask=(m < tokens)[:, None] & (n < hidden)[None, :])


def custom_kernel(data):
    x, w_gate, w_up = data
    tokens, width = x.shape
    hidden = w_gate.shape[0]
    out = torch.empty((tokens, hidden), device=x.device, dtype=x.dtype)
    grid = (min(PROGRAMS, triton.cdiv(tokens, BLOCK_M) * triton.cdiv(hidden, BLOCK_N)),)
    swiglu_persistent[grid](
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
