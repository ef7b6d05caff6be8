import torch
import triton
import triton.language as tl

HIDDEN = 128
EPS = 1e-5
BLOCK_M = 64
BLOCK_H = 64
BLOCK_K = 32
OUT_BLOCK_M = 64
PROJECT_WARPS = 8
OUT_WARPS = 8


@triton.jit
def row_statistics(x_ptr, rows, inside, dim, EPS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
    total = tl.zeros([BLOCK_M, BLOCK_K], dtype=tl.float32)
    for start in range(0, dim, BLOCK_K):
        at = rows[:, None] * dim + start + tl.arange(0, BLOCK_K)[None, :]
        total += tl.load(x_ptr + at, mask=inside[:, None], other=0.0)
    mean = tl.sum(total, axis=1) / dim
    square = tl.zeros([BLOCK_M, BLOCK_K], dtype=tl.float32)
    for start in range(0, dim, BLOCK_K):
        at = rows[:, None] * dim + start + tl.arange(0, BLOCK_K)[None, :]
        centred = tl.load(x_ptr + at, mask=inside[:, None], other=0.0) - mean[:, None]
        square += centred * centred
    return mean, 1.0 / tl.sqrt(tl.sum(square, axis=1) / dim + EPS)


@triton.jit
def project_edges(
    x_ptr,
    mask_ptr,
    norm_w_ptr,
    norm_b_ptr,
    weight_ptr,
    gate_ptr,
    edge_ptr,
    count,
    plane,
    dim,
    EPS: tl.constexpr,
    H: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    channels = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    inside = rows < count
    mean, scale = row_statistics(x_ptr, rows, inside, dim, EPS, BLOCK_M, BLOCK_K)
    value = tl.zeros([BLOCK_M, BLOCK_H], dtype=tl.float32)
    gate = tl.zeros([BLOCK_M, BLOCK_H], dtype=tl.float32)
    for start in range(0, dim, BLOCK_K):
        cols = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows[:, None] * dim + cols[None, :], mask=inside[:, None], other=0.0)
        x = (x - mean[:, None]) * scale[:, None] * tl.load(norm_w_ptr + cols)[None, :]
        x = (x + tl.load(norm_b_ptr + cols)[None, :]).to(tl.float16)
        at = channels[None, :] * dim + cols[:, None]
        value = tl.dot(x, tl.load(weight_ptr + at).to(tl.float16), value)
        gate = tl.dot(x, tl.load(gate_ptr + at).to(tl.float16), gate)
    kept = tl.load(mask_ptr + rows, mask=inside, other=0.0)
    edge = value * tl.sigmoid(gate) * kept[:, None]
    at = (rows // plane * H)[:, None] * plane + channels[None, :] * plane + (rows % plane)[:, None]
    tl.store(edge_ptr + at, edge.to(tl.bfloat16), mask=inside[:, None])


@triton.jit
def finish_pairs(
    x_ptr,
    sums_ptr,
    norm_w_ptr,
    norm_b_ptr,
    gate_ptr,
    out_norm_w_ptr,
    out_norm_b_ptr,
    w_out_ptr,
    out_ptr,
    count,
    plane,
    dim,
    EPS: tl.constexpr,
    H: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    channels = tl.arange(0, H)
    inside = rows < count
    mean, scale = row_statistics(x_ptr, rows, inside, dim, EPS, BLOCK_M, BLOCK_K)
    gate = tl.zeros([BLOCK_M, H], dtype=tl.float32)
    for start in range(0, dim, BLOCK_K):
        cols = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + rows[:, None] * dim + cols[None, :], mask=inside[:, None], other=0.0)
        x = (x - mean[:, None]) * scale[:, None] * tl.load(norm_w_ptr + cols)[None, :]
        x = (x + tl.load(norm_b_ptr + cols)[None, :]).to(tl.float16)
        gate = tl.dot(x, tl.load(gate_ptr + channels[None, :] * dim + cols[:, None]).to(tl.float16), gate)
    at = (rows // plane * H)[:, None] * plane + channels[None, :] * plane + (rows % plane)[:, None]
    sums = tl.load(sums_ptr + at, mask=inside[:, None], other=0.0).to(tl.float32)
    centred = sums - (tl.sum(sums, axis=1) / H)[:, None]
    spread = tl.sqrt(tl.sum(centred * centred, axis=1) / H + EPS)
    normalised = centred / spread[:, None] * tl.load(out_norm_w_ptr + channels)[None, :]
    normalised += tl.load(out_norm_b_ptr + channels)[None, :]
    gated = (normalised * tl.sigmoid(gate)).to(tl.float16)
    for start in range(0, dim, BLOCK_K):
        cols = start + tl.arange(0, BLOCK_K)
        weight = tl.load(w_out_ptr + cols[None, :] * H + channels[:, None]).to(tl.float16)
        tl.store(out_ptr + rows[:, None] * dim + cols[None, :], tl.dot(gated, weight), mask=inside[:, None])


def custom_kernel(data):
    x, mask, norm_w, norm_b, w_left, w_right, w_left_gate, w_right_gate, w_gate, out_norm_w, out_norm_b, w_out = data
    batch, n, _, dim = x.shape
    count = batch * n * n
    left, right = (torch.empty((batch, HIDDEN, n, n), device=x.device, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(x)
    shape = {"EPS": EPS, "H": HIDDEN, "BLOCK_K": BLOCK_K}
    grid = (triton.cdiv(count, BLOCK_M), HIDDEN // BLOCK_H)
    for weight, gate, edge in ((w_left, w_left_gate, left), (w_right, w_right_gate, right)):
        project_edges[grid](
            x,
            mask,
            norm_w,
            norm_b,
            weight,
            gate,
            edge,
            count,
            n * n,
            dim,
            BLOCK_M=BLOCK_M,
            BLOCK_H=BLOCK_H,
            **shape,
            num_warps=PROJECT_WARPS,
        )
    sums = torch.matmul(left, right.transpose(-1, -2))
    finish_pairs[(triton.cdiv(count, OUT_BLOCK_M),)](
        x,
        sums,
        norm_w,
        norm_b,
        w_gate,
        out_norm_w,
        out_norm_b,
        w_out,
        out,
        count,
        n * n,
        dim,
        BLOCK_M=OUT_BLOCK_M,
        **shape,
        num_warps=OUT_WARPS,
    )
    return out
