import torch
import torch.nn.functional as F
import triton
import triton.language as tl

EPS = 1e-5
BLOCK_C = 64
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def window_mix(
    x_ptr,
    gamma_ptr,
    beta_ptr,
    w_ptr,
    b_ptr,
    out_ptr,
    H,
    W,
    C,
    side,
    heads,
    eps,
    BLOCK_P: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    window = tl.program_id(0)
    p = tl.arange(0, BLOCK_P)
    places = side * side
    real = p < places
    across = W // side
    image = window // (across * (H // side))
    row = window // across % (H // side) * side + p // side
    col = window % across * side + p % side
    base = ((image * H + row) * W + col) * C
    total = tl.zeros((BLOCK_P,), tl.float32)
    for start in range(0, C, BLOCK_C):
        c = start + tl.arange(0, BLOCK_C)
        mask = real[:, None] & (c < C)[None, :]
        total += tl.sum(tl.load(x_ptr + base[:, None] + c[None, :], mask=mask, other=0.0).to(tl.float32), 1)
    mean = total / C
    total = tl.zeros((BLOCK_P,), tl.float32)
    for start in range(0, C, BLOCK_C):
        c = start + tl.arange(0, BLOCK_C)
        mask = real[:, None] & (c < C)[None, :]
        x = tl.load(x_ptr + base[:, None] + c[None, :], mask=mask, other=0.0).to(tl.float32)
        centred = tl.where(mask, x - mean[:, None], 0.0)
        total += tl.sum(centred * centred, 1)
    scale = tl.math.rsqrt(total / C + eps)
    width = C // heads
    d = tl.arange(0, BLOCK_D)
    for head in range(heads):
        c = head * width + d
        mask = real[:, None] & (d < width)[None, :]
        x = tl.load(x_ptr + base[:, None] + c[None, :], mask=mask, other=0.0).to(tl.float32)
        gamma = tl.load(gamma_ptr + c, mask=d < width, other=0.0).to(tl.float32)
        beta = tl.load(beta_ptr + c, mask=d < width, other=0.0).to(tl.float32)
        y = (x - mean[:, None]) * scale[:, None] * gamma[None, :] + beta[None, :]
        y = tl.where(mask, y, 0.0).to(tl.float16)
        rows = head * places + p
        mix = tl.load(w_ptr + rows[:, None] * places + p[None, :], mask=real[:, None] & real[None, :], other=0.0)
        acc = tl.dot(mix, y) + tl.load(b_ptr + rows, mask=real, other=0.0).to(tl.float32)[:, None]
        tl.store(out_ptr + base[:, None] + c[None, :], (acc + x).to(tl.float16), mask=mask)


def custom_kernel(data):
    x, gamma1, beta1, w_mix, b_mix, gamma2, beta2, w_up, b_up, w_down, b_down = data
    n, h, w, c = x.shape
    p = w_mix.shape[1]
    heads = w_mix.shape[0] // p
    total = torch.empty((n, h, w, c), device=x.device, dtype=x.dtype)
    window_mix[(n * h * w // p,)](
        x,
        gamma1,
        beta1,
        w_mix,
        b_mix,
        total,
        h,
        w,
        c,
        round(p**0.5),
        heads,
        EPS,
        BLOCK_P=max(16, triton.next_power_of_2(p)),
        BLOCK_D=max(16, triton.next_power_of_2(c // heads)),
        BLOCK_C=BLOCK_C,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    y = F.gelu(F.linear(F.layer_norm(total, (c,), gamma2, beta2, EPS), w_up, b_up))
    return F.linear(y, w_down, b_down).add_(total)
