import torch
import triton
import triton.language as tl

NUM_WARPS = 4


@triton.jit
def rotate_heads(x_ptr, out_ptr, token, c, s, heads, half, HEADS: tl.constexpr, HALF: tl.constexpr):
    head = tl.arange(0, HEADS)
    index = tl.arange(0, HALF)
    mask = (head < heads)[:, None] & (index < half)[None, :]
    at = (token * heads + head)[:, None] * 2 * half + index[None, :]
    first = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(x_ptr + at + half, mask=mask, other=0.0).to(tl.float32)
    turned_first = first * c[None, :] - second * s[None, :]
    turned_second = second * c[None, :] + first * s[None, :]
    tl.store(out_ptr + at, turned_first.to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(out_ptr + at + half, turned_second.to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def rotate_token(
    q_ptr,
    k_ptr,
    cos_ptr,
    sin_ptr,
    q_out_ptr,
    k_out_ptr,
    length,
    q_heads,
    k_heads,
    half,
    Q_HEADS: tl.constexpr,
    K_HEADS: tl.constexpr,
    HALF: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    index = tl.arange(0, HALF)
    table = token % length * half + index
    c = tl.load(cos_ptr + table, mask=index < half, other=0.0)
    s = tl.load(sin_ptr + table, mask=index < half, other=0.0)
    rotate_heads(q_ptr, q_out_ptr, token, c, s, q_heads, half, Q_HEADS, HALF)
    rotate_heads(k_ptr, k_out_ptr, token, c, s, k_heads, half, K_HEADS, HALF)


def custom_kernel(data):
    q, k, cos, sin = data
    batch, length, q_heads, _ = q.shape
    k_heads = k.shape[2]
    half = cos.shape[1]
    q_out = torch.empty_like(q)
    k_out = torch.empty_like(k)
    rotate_token[(batch * length,)](
        q,
        k,
        cos,
        sin,
        q_out,
        k_out,
        length,
        q_heads,
        k_heads,
        half,
        Q_HEADS=triton.next_power_of_2(q_heads),
        K_HEADS=triton.next_power_of_2(k_heads),
        HALF=triton.next_power_of_2(half),
        num_warps=NUM_WARPS,
    )
    return q_out, k_out
