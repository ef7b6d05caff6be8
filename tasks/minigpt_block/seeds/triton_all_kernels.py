import torch
import triton
import triton.language as tl

EPS = 1e-5
NORM_ROWS = 4
NORM_WARPS = 4
BLOCK_M = 128
BLOCK_N = 256
BLOCK_K = 64
GROUP_M = 4
LINEAR_WARPS = 8
LINEAR_STAGES = 3
QUERIES = 128
KEYS = 64
CORE_WARPS = 8
CORE_STAGES = 2
DOT_TYPES = {"cuda": tl.bfloat16, "cpu": tl.float32}


@triton.jit
def norm_rows(x_ptr, w_ptr, b_ptr, out_ptr, rows, width, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    inside = (row < rows)[:, None] & (cols < width)[None, :]
    at = row[:, None] * width + cols[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=1) / width
    centred = tl.where((cols < width)[None, :], x - mean[:, None], 0.0)
    scale = tl.math.rsqrt(tl.sum(centred * centred, axis=1) / width + eps)
    w = tl.load(w_ptr + cols, mask=cols < width, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=cols < width, other=0.0).to(tl.float32)
    y = centred * scale[:, None] * w[None, :] + b[None, :]
    tl.store(out_ptr + at, y.to(tl.bfloat16), mask=inside)


@triton.jit
def linear(
    x_ptr,
    w_ptr,
    b_ptr,
    r_ptr,
    out_ptr,
    m,
    n,
    k,
    ACTIVATE: tl.constexpr,
    RESIDUAL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    DOT: tl.constexpr,
):
    program = tl.program_id(0)
    tiles_n = tl.cdiv(n, BLOCK_N)
    group = program // (GROUP_M * tiles_n)
    height = tl.minimum(tl.cdiv(m, BLOCK_M) - group * GROUP_M, GROUP_M)
    within = program % (GROUP_M * tiles_n)
    rows = (group * GROUP_M + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = within // height * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + (rows % m)[:, None] * k + inner[None, :]
    w_ptrs = w_ptr + (cols % n)[None, :] * k + inner[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        x = tl.load(x_ptrs, mask=(inner < k - start)[None, :], other=0.0)
        w = tl.load(w_ptrs, mask=(inner < k - start)[:, None], other=0.0)
        total = tl.dot(x.to(DOT), w.to(DOT), total)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    total += tl.load(b_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)[None, :]
    at = rows[:, None] * n + cols[None, :]
    mask = (rows < m)[:, None] & (cols < n)[None, :]
    if ACTIVATE:
        total = total * tl.sigmoid(1.5957691216057308 * (total + 0.044715 * total * total * total))
    if RESIDUAL:
        total += tl.load(r_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, total.to(tl.bfloat16), mask=mask)


def apply_linear(x, weight, bias, residual=None, activate=False):
    n, k = weight.shape
    m = x.numel() // k
    out = torch.empty((*x.shape[:-1], n), device=x.device, dtype=x.dtype)
    linear[(triton.cdiv(m, BLOCK_M) * triton.cdiv(n, BLOCK_N),)](
        x,
        weight,
        bias,
        out if residual is None else residual,
        out,
        m,
        n,
        k,
        ACTIVATE=activate,
        RESIDUAL=residual is not None,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        GROUP_M=GROUP_M,
        DOT=DOT_TYPES[x.device.type],
        num_warps=LINEAR_WARPS,
        num_stages=LINEAR_STAGES,
    )
    return out


@triton.jit
def attention(
    qkv_ptr,
    y_ptr,
    length,
    heads,
    dim,
    scale,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    BLOCK_D: tl.constexpr,
    DOT: tl.constexpr,
):
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * QUERIES
    head = tl.program_id(1)
    token = tl.program_id(2).to(tl.int64) * length
    width = heads * dim
    rows = first + tl.arange(0, QUERIES)
    dims = tl.arange(0, BLOCK_D)
    real = (dims < dim)[None, :]
    base = qkv_ptr + token * 3 * width + head * dim
    q = tl.load(base + rows[:, None] * (3 * width) + dims[None, :], mask=(rows < length)[:, None] & real, other=0.0)
    q = q.to(DOT)
    peak = tl.full((QUERIES,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((QUERIES,), dtype=tl.float32)
    out = tl.zeros((QUERIES, BLOCK_D), dtype=tl.float32)
    for start in range(0, tl.minimum(first + QUERIES, length), KEYS):
        cols = start + tl.arange(0, KEYS)
        at = cols[:, None] * (3 * width) + dims[None, :]
        inside = (cols < length)[:, None] & real
        k = tl.load(base + width + at, mask=inside, other=0.0)
        v = tl.load(base + 2 * width + at, mask=inside, other=0.0)
        scores = tl.dot(q, tl.trans(k.to(DOT))) * scale
        scores = tl.where(cols[None, :] <= rows[:, None], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        total = total * shrink + tl.sum(weights, axis=1)
        out = tl.dot(weights.to(tl.bfloat16).to(DOT), v.to(DOT), out * shrink[:, None])
        peak = new_peak
    target = y_ptr + (token + rows)[:, None] * width + head * dim + dims[None, :]
    tl.store(target, (out / total[:, None]).to(tl.bfloat16), mask=(rows < length)[:, None] & real)


def apply_norm(x, weight, bias):
    width = x.shape[-1]
    rows = x.numel() // width
    out = torch.empty_like(x)
    norm_rows[(triton.cdiv(rows, NORM_ROWS),)](
        x,
        weight,
        bias,
        out,
        rows,
        width,
        EPS,
        ROWS=NORM_ROWS,
        BLOCK=triton.next_power_of_2(width),
        num_warps=NORM_WARPS,
    )
    return out


def custom_kernel(data):
    x, n1_w, n1_b, w_qkv, b_qkv, w_proj, b_proj, n2_w, n2_b, w_up, b_up, w_down, b_down = data
    batch, length, width = x.shape
    heads, dim = b_qkv.shape[1:]
    qkv = apply_linear(apply_norm(x, n1_w, n1_b), w_qkv.view(-1, width), b_qkv)
    y = torch.empty_like(x)
    attention[(triton.cdiv(length, QUERIES), heads, batch)](
        qkv,
        y,
        length,
        heads,
        dim,
        dim**-0.5 * 1.4426950408889634,
        QUERIES=QUERIES,
        KEYS=KEYS,
        BLOCK_D=triton.next_power_of_2(dim),
        DOT=DOT_TYPES[x.device.type],
        num_warps=CORE_WARPS,
        num_stages=CORE_STAGES,
    )
    x1 = apply_linear(y, w_proj, b_proj, residual=x)
    h = apply_linear(apply_norm(x1, n2_w, n2_b), w_up, b_up, activate=True)
    return apply_linear(h, w_down, b_down, residual=x1)
