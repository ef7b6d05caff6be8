import torch
import torch.nn.functional as F
import triton
import triton.language as tl

EPS = 1e-5
BLOCK_M = 128
BLOCK_N = 64
BLOCK_K = 32
NUM_WARPS = 4
NUM_STAGES = 3


@triton.jit
def mix(
    y_ptr,
    w_ptr,
    b_ptr,
    x_ptr,
    out_ptr,
    H,
    W,
    C,
    width,
    side,
    BLOCK_P: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    window = tl.program_id(0)
    head = tl.program_id(1)
    p = tl.arange(0, BLOCK_P)
    d = tl.arange(0, BLOCK_D)
    places = side * side
    real = p < places
    across = W // side
    image = window // (across * (H // side))
    row = window // across % (H // side) * side + p // side
    col = window % across * side + p % side
    offsets = (((image * H + row) * W + col) * C + head * width)[:, None] + d[None, :]
    mask = real[:, None] & (d < width)[None, :]
    rows = head * places + p
    weight = tl.load(w_ptr + rows[:, None] * places + p[None, :], mask=real[:, None] & real[None, :], other=0.0)
    acc = tl.dot(weight, tl.load(y_ptr + offsets, mask=mask, other=0.0))
    acc += tl.load(b_ptr + rows, mask=real, other=0.0).to(tl.float32)[:, None]
    acc += tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, acc.to(tl.float16), mask=mask)


@triton.jit
def linear(
    a_ptr,
    w_ptr,
    b_ptr,
    r_ptr,
    out_ptr,
    M,
    N,
    K,
    GELU: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=(n < N)[None, :] & (k < K)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    acc += tl.load(b_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    offsets = m[:, None] * N + n[None, :]
    mask = (m < M)[:, None] & (n < N)[None, :]
    if GELU:
        acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
    else:
        acc += tl.load(r_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, acc.to(tl.float16), mask=mask)


def project(a, weight, bias, residual):
    m, k = a.shape
    n = weight.shape[0]
    out = torch.empty((m, n), device=a.device, dtype=a.dtype)
    linear[(triton.cdiv(m, BLOCK_M), triton.cdiv(n, BLOCK_N))](
        a,
        weight,
        bias,
        a if residual is None else residual,
        out,
        m,
        n,
        k,
        GELU=residual is None,
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out


def custom_kernel(data):
    x, gamma1, beta1, w_mix, b_mix, gamma2, beta2, w_up, b_up, w_down, b_down = data
    n, h, w, c = x.shape
    p = w_mix.shape[1]
    heads = w_mix.shape[0] // p
    width = c // heads
    total = torch.empty((n * h * w, c), device=x.device, dtype=x.dtype)
    mix[(n * h * w // p, heads)](
        F.layer_norm(x, (c,), gamma1, beta1, EPS),
        w_mix,
        b_mix,
        x,
        total,
        h,
        w,
        c,
        width,
        round(p**0.5),
        BLOCK_P=max(16, triton.next_power_of_2(p)),
        BLOCK_D=max(16, triton.next_power_of_2(width)),
        num_warps=NUM_WARPS,
    )
    hidden = project(F.layer_norm(total, (c,), gamma2, beta2, EPS), w_up, b_up, None)
    return project(hidden, w_down, b_down, total).view(n, h, w, c)
