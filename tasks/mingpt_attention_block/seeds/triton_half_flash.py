import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 64
GROUP_M = 4
LINEAR_WARPS = 8
LINEAR_STAGES = 3
QUERIES = 64
KEYS = 64
CORE_WARPS = 4
CORE_STAGES = 3


@triton.jit
def narrow(x_ptr, out_ptr, numel, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < numel, other=0.0)
    tl.store(out_ptr + offsets, x.to(tl.float16), mask=offsets < numel)


@triton.jit
def linear(
    x_ptr,
    w_ptr,
    b_ptr,
    out_ptr,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    program = tl.program_id(0)
    tiles_n = tl.cdiv(n, BLOCK_N)
    group = program // (GROUP_M * tiles_n)
    height = tl.minimum(tl.cdiv(m, BLOCK_M) - group * GROUP_M, GROUP_M)
    within = program % (GROUP_M * tiles_n)
    rows = (group * GROUP_M + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = within // height * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x = tl.load(
            x_ptr + rows[:, None] * k + inner[None, :], mask=(rows < m)[:, None] & (inner < k)[None, :], other=0.0
        )
        w = tl.load(
            w_ptr + cols[:, None] * k + inner[None, :], mask=(cols < n)[:, None] & (inner < k)[None, :], other=0.0
        )
        total = tl.dot(x, tl.trans(w), total)
    total += tl.load(b_ptr + cols, mask=cols < n, other=0.0)[None, :]
    target = out_ptr + rows[:, None] * n + cols[None, :]
    tl.store(target, total.to(out_ptr.dtype.element_ty), mask=(rows < m)[:, None] & (cols < n)[None, :])


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
):
    first = tl.program_id(1) * QUERIES
    head = tl.program_id(0) % heads
    sequence = tl.program_id(0) // heads
    width = heads * dim
    rows = first + tl.arange(0, QUERIES)
    dims = tl.arange(0, BLOCK_D)
    real = (dims < dim)[None, :]
    token = sequence.to(tl.int64) * length
    base = qkv_ptr + token * 3 * width + head * dim
    q = tl.load(base + rows[:, None] * (3 * width) + dims[None, :], mask=(rows < length)[:, None] & real, other=0.0)
    peak = tl.full((QUERIES,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((QUERIES,), dtype=tl.float32)
    out = tl.zeros((QUERIES, BLOCK_D), dtype=tl.float32)
    for start in range(0, tl.minimum(first + QUERIES, length), KEYS):
        cols = start + tl.arange(0, KEYS)
        at = cols[:, None] * (3 * width) + dims[None, :]
        inside = (cols < length)[:, None] & real
        k = tl.load(base + width + at, mask=inside, other=0.0)
        v = tl.load(base + 2 * width + at, mask=inside, other=0.0)
        scores = tl.where(cols[None, :] <= rows[:, None], tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        total = total * shrink + tl.sum(weights, axis=1)
        out = tl.dot(weights.to(tl.float16), v, out * shrink[:, None])
        peak = new_peak
    target = y_ptr + (token + rows)[:, None] * width + head * dim + dims[None, :]
    tl.store(target, (out / total[:, None]).to(tl.float16), mask=(rows < length)[:, None] & real)


def to_half(value):
    out = torch.empty(value.shape, device=value.device, dtype=torch.float16)
    narrow[(triton.cdiv(value.numel(), 4096),)](value, out, value.numel(), BLOCK=4096, num_warps=8)
    return out


def apply_linear(x, weight, bias, out):
    n, k = weight.shape
    m = x.numel() // k
    linear[(triton.cdiv(n, BLOCK_N) * triton.cdiv(m, BLOCK_M),)](
        x,
        weight,
        bias,
        out,
        m,
        n,
        k,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        GROUP_M=GROUP_M,
        num_warps=LINEAR_WARPS,
        num_stages=LINEAR_STAGES,
    )


def custom_kernel(data):
    x, w_qkv, b_qkv, w_proj, b_proj = data
    batch, length, width = x.shape
    heads, dim = b_qkv.shape[1:]
    qkv = torch.empty((batch, length, 3 * width), device=x.device, dtype=torch.float16)
    y = torch.empty((batch, length, width), device=x.device, dtype=torch.float16)
    out = torch.empty_like(x)
    apply_linear(to_half(x), to_half(w_qkv).view(-1, width), b_qkv, qkv)
    attention[(batch * heads, triton.cdiv(length, QUERIES))](
        qkv,
        y,
        length,
        heads,
        dim,
        dim**-0.5 * 1.4426950408889634,
        QUERIES=QUERIES,
        KEYS=KEYS,
        BLOCK_D=triton.next_power_of_2(dim),
        num_warps=CORE_WARPS,
        num_stages=CORE_STAGES,
    )
    apply_linear(y, to_half(w_proj), b_proj, out)
    return out
