import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

LOG2E = 1.4426950408889634
BLOCK_M = 128
SHAPES = {64: {"BLOCK_N": 128, "num_warps": 8, "num_stages": 2}, 128: {"BLOCK_N": 64, "num_warps": 8, "num_stages": 3}}
DOT_TYPES = {"cuda": tl.bfloat16, "cpu": tl.float32}


@triton.jit
def attend_tma(
    q_desc,
    k_desc,
    v_desc,
    out_ptr,
    length,
    scale,
    DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DOT: tl.constexpr,
):
    head = tl.program_id(0) * length
    first = (tl.num_programs(1) - 1 - tl.program_id(1)) * BLOCK_M
    rows = first + tl.arange(0, BLOCK_M)
    lanes = tl.arange(0, BLOCK_N)
    q = q_desc.load([head + first, 0]).to(DOT)
    peak = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    out = tl.zeros((BLOCK_M, DIM), dtype=tl.float32)
    for start in tl.range(0, first, BLOCK_N):
        scores = tl.dot(q, tl.trans(k_desc.load([head + start, 0]).to(DOT)))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1) * scale)
        weights = tl.exp2(scores * scale - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        peak = new_peak
        total = total * shrink + tl.sum(weights, axis=1)
        v = v_desc.load([head + start, 0])
        out = tl.dot(weights.to(tl.bfloat16).to(DOT), v.to(DOT), out * shrink[:, None])
    for start in tl.range(first, tl.minimum(first + BLOCK_M, length), BLOCK_N):
        scores = tl.dot(q, tl.trans(k_desc.load([head + start, 0]).to(DOT)))
        scores = tl.where((start + lanes)[None, :] <= rows[:, None], scores * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        peak = new_peak
        total = total * shrink + tl.sum(weights, axis=1)
        v = v_desc.load([head + start, 0])
        out = tl.dot(weights.to(tl.bfloat16).to(DOT), v.to(DOT), out * shrink[:, None])
    dims = tl.arange(0, DIM)
    target = out_ptr + (head + rows).to(tl.int64)[:, None] * DIM + dims[None, :]
    tl.store(target, (out / total[:, None]).to(tl.bfloat16), mask=(rows < length)[:, None])


def custom_kernel(data):
    q, k, v = data
    batch, heads, length, dim = q.shape
    out = torch.empty_like(q)
    shape = SHAPES[dim]
    keys = [shape["BLOCK_N"], dim]
    attend_tma[(batch * heads, triton.cdiv(length, BLOCK_M))](
        TensorDescriptor.from_tensor(q.view(-1, dim), [BLOCK_M, dim]),
        TensorDescriptor.from_tensor(k.view(-1, dim), keys),
        TensorDescriptor.from_tensor(v.view(-1, dim), keys),
        out,
        length,
        dim**-0.5 * LOG2E,
        DIM=dim,
        BLOCK_M=BLOCK_M,
        DOT=DOT_TYPES[q.device.type],
        **shape,
    )
    return out
