import torch
import triton
import triton.language as tl

HIDDEN = 128
EPS = 1e-5
ROWS = 4
PROJECT_M = 128
PROJECT_H = 32
PROJECT_K = 32
BLOCK_I = 128
BLOCK_J = 64
BLOCK_K = 32
PROGRAMS = 264
FINISH_M = 32
FINISH_N = 32
NORM_WARPS = 4
PROJECT_WARPS = 8
SUM_WARPS = 8
SUM_STAGES = 3
FINISH_WARPS = 4


@triton.jit
def normalise(x_ptr, w_ptr, b_ptr, out_ptr, count, dim, EPS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    mask = (rows < count)[:, None] & (cols < dim)[None, :]
    at = rows[:, None] * dim + cols[None, :]
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    centred = tl.where(mask, x - (tl.sum(x, axis=1) / dim)[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / dim + EPS)
    w = tl.load(w_ptr + cols, mask=cols < dim, other=0.0)
    b = tl.load(b_ptr + cols, mask=cols < dim, other=0.0)
    out = centred * scale[:, None] * w[None, :] + b[None, :]
    tl.store(out_ptr + at, out.to(tl.float16), mask=mask)


@triton.jit
def project(
    rows_ptr,
    mask_ptr,
    left_w_ptr,
    right_w_ptr,
    left_gate_ptr,
    right_gate_ptr,
    out_gate_ptr,
    left_ptr,
    right_ptr,
    gate_ptr,
    count,
    plane,
    dim,
    H: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    channels = tl.program_id(0) * BLOCK_H + tl.arange(0, BLOCK_H)
    rows = tl.program_id(1).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    inside = rows < count
    left = tl.zeros([BLOCK_M, BLOCK_H], dtype=tl.float32)
    right = tl.zeros([BLOCK_M, BLOCK_H], dtype=tl.float32)
    left_gate = tl.zeros([BLOCK_M, BLOCK_H], dtype=tl.float32)
    right_gate = tl.zeros([BLOCK_M, BLOCK_H], dtype=tl.float32)
    out_gate = tl.zeros([BLOCK_M, BLOCK_H], dtype=tl.float32)
    for start in range(0, dim, BLOCK_K):
        cols = start + tl.arange(0, BLOCK_K)
        x = tl.load(rows_ptr + rows[:, None] * dim + cols[None, :], mask=inside[:, None], other=0.0)
        at = channels[None, :] * dim + cols[:, None]
        left = tl.dot(x, tl.load(left_w_ptr + at).to(tl.float16), left)
        right = tl.dot(x, tl.load(right_w_ptr + at).to(tl.float16), right)
        left_gate = tl.dot(x, tl.load(left_gate_ptr + at).to(tl.float16), left_gate)
        right_gate = tl.dot(x, tl.load(right_gate_ptr + at).to(tl.float16), right_gate)
        out_gate = tl.dot(x, tl.load(out_gate_ptr + at).to(tl.float16), out_gate)
    kept = tl.load(mask_ptr + rows, mask=inside, other=0.0)[:, None]
    at = (rows // plane * H)[:, None] * plane + channels[None, :] * plane + (rows % plane)[:, None]
    tl.store(left_ptr + at, (left * tl.sigmoid(left_gate) * kept).to(tl.float16), mask=inside[:, None])
    tl.store(right_ptr + at, (right * tl.sigmoid(right_gate) * kept).to(tl.float16), mask=inside[:, None])
    at = rows[:, None] * H + channels[None, :]
    tl.store(gate_ptr + at, tl.sigmoid(out_gate).to(tl.float16), mask=inside[:, None])


@triton.jit
def triangle_persistent(
    left_ptr,
    right_ptr,
    sums_ptr,
    planes,
    n,
    BLOCK_I: tl.constexpr,
    BLOCK_J: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    wide = tl.cdiv(n, BLOCK_J)
    tiles = tl.cdiv(n, BLOCK_I) * wide
    for index in range(tl.program_id(0), planes * tiles, tl.num_programs(0)):
        base = tl.cast(index // tiles, tl.int64) * n * n
        rows = index % tiles // wide * BLOCK_I + tl.arange(0, BLOCK_I)
        cols = index % wide * BLOCK_J + tl.arange(0, BLOCK_J)
        total = tl.zeros([BLOCK_I, BLOCK_J], dtype=tl.float32)
        for start in range(0, n, BLOCK_K):
            k = start + tl.arange(0, BLOCK_K)
            left_mask = (rows < n)[:, None] & (k < n)[None, :]
            right_mask = (cols < n)[:, None] & (k < n)[None, :]
            left = tl.load(left_ptr + base + rows[:, None] * n + k[None, :], mask=left_mask, other=0.0)
            right = tl.load(right_ptr + base + cols[:, None] * n + k[None, :], mask=right_mask, other=0.0)
            total = tl.dot(left, tl.trans(right), total)
        mask = (rows < n)[:, None] & (cols < n)[None, :]
        tl.store(sums_ptr + base + rows[:, None] * n + cols[None, :], total.to(tl.bfloat16), mask=mask)


@triton.jit
def finish(
    sums_ptr,
    gate_ptr,
    norm_w_ptr,
    norm_b_ptr,
    w_out_ptr,
    out_ptr,
    count,
    plane,
    dim,
    EPS: tl.constexpr,
    H: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    channels = tl.arange(0, H)
    inside = (rows < count)[None, :]
    at = (rows // plane * H)[None, :] * plane + channels[:, None] * plane + (rows % plane)[None, :]
    sums = tl.load(sums_ptr + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / H
    centred = sums - mean[None, :]
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / H + EPS)
    pairs = centred * scale[None, :] * tl.load(norm_w_ptr + channels)[:, None] + tl.load(norm_b_ptr + channels)[:, None]
    gate = tl.load(gate_ptr + rows[None, :] * H + channels[:, None], mask=inside, other=0.0).to(tl.float32)
    gated = tl.trans(pairs * gate).to(tl.float16)
    for start in range(0, dim, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        weight = tl.load(w_out_ptr + cols[None, :] * H + channels[:, None]).to(tl.float16)
        target = out_ptr + rows[:, None] * dim + cols[None, :]
        tl.store(target, tl.dot(gated, weight), mask=(rows < count)[:, None])


def custom_kernel(data):
    x, mask, norm_w, norm_b, w_left, w_right, w_left_gate, w_right_gate, w_gate, out_norm_w, out_norm_b, w_out = data
    batch, n, _, dim = x.shape
    count = batch * n * n
    rows = torch.empty((count, dim), device=x.device, dtype=torch.float16)
    left, right = (torch.empty((batch, HIDDEN, n, n), device=x.device, dtype=torch.float16) for _ in range(2))
    gate = torch.empty((count, HIDDEN), device=x.device, dtype=torch.float16)
    sums = torch.empty((batch, HIDDEN, n, n), device=x.device, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    normalise[(triton.cdiv(count, ROWS),)](
        x,
        norm_w,
        norm_b,
        rows,
        count,
        dim,
        EPS=EPS,
        ROWS=ROWS,
        BLOCK=triton.next_power_of_2(dim),
        num_warps=NORM_WARPS,
    )
    project[(HIDDEN // PROJECT_H, triton.cdiv(count, PROJECT_M))](
        rows,
        mask,
        w_left,
        w_right,
        w_left_gate,
        w_right_gate,
        w_gate,
        left,
        right,
        gate,
        count,
        n * n,
        dim,
        H=HIDDEN,
        BLOCK_M=PROJECT_M,
        BLOCK_H=PROJECT_H,
        BLOCK_K=PROJECT_K,
        num_warps=PROJECT_WARPS,
    )
    tiles = batch * HIDDEN * triton.cdiv(n, BLOCK_I) * triton.cdiv(n, BLOCK_J)
    triangle_persistent[(min(tiles, PROGRAMS),)](
        left,
        right,
        sums,
        batch * HIDDEN,
        n,
        BLOCK_I=BLOCK_I,
        BLOCK_J=BLOCK_J,
        BLOCK_K=BLOCK_K,
        num_warps=SUM_WARPS,
        num_stages=SUM_STAGES,
    )
    finish[(triton.cdiv(count, FINISH_M),)](
        sums,
        gate,
        out_norm_w,
        out_norm_b,
        w_out,
        out,
        count,
        n * n,
        dim,
        EPS=EPS,
        H=HIDDEN,
        BLOCK_M=FINISH_M,
        BLOCK_N=FINISH_N,
        num_warps=FINISH_WARPS,
    )
    return out
