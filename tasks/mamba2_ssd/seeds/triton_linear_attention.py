import torch
import triton
import triton.language as tl

BLOCK_I = 64
BLOCK_J = 64
PRECISION = "tf32"
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def decayed_attention(
    x_ptr,
    gain_ptr,
    b_ptr,
    c_ptr,
    y_ptr,
    length,
    heads,
    P: tl.constexpr,
    N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_I: tl.constexpr,
    BLOCK_J: tl.constexpr,
    PRECISION: tl.constexpr,
):
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK_I
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    row = first + tl.arange(0, BLOCK_I)
    cols = tl.arange(0, BLOCK_P)
    places = tl.arange(0, BLOCK_N)
    place_mask = (places < N)[None, :]
    col_mask = (cols < P)[None, :]
    inside = row < length
    token = (batch * length + row) * heads + head
    gain = tl.load(gain_ptr + token, mask=inside, other=0.0)
    c_mask = inside[:, None] & place_mask
    c = tl.load(c_ptr + token[:, None] * N + places[None, :], mask=c_mask, other=0.0)
    y = tl.zeros([BLOCK_I, BLOCK_P], dtype=tl.float32)
    for start in range(0, tl.minimum(first + BLOCK_I, length), BLOCK_J):
        other = start + tl.arange(0, BLOCK_J)
        known = other < length
        source = (batch * length + other) * heads + head
        b = tl.load(b_ptr + source[:, None] * N + places[None, :], mask=known[:, None] & place_mask, other=0.0)
        x = tl.load(x_ptr + source[:, None] * P + cols[None, :], mask=known[:, None] & col_mask, other=0.0)
        gap = gain[:, None] - tl.load(gain_ptr + source, mask=known, other=0.0)[None, :]
        gap = tl.where(row[:, None] >= other[None, :], gap, float("-inf"))
        weights = tl.dot(c, tl.trans(b), input_precision=PRECISION) * tl.exp(gap)
        y = tl.dot(weights, x, acc=y, input_precision=PRECISION)
    tl.store(y_ptr + token[:, None] * P + cols[None, :], y, mask=inside[:, None] & col_mask)


def custom_kernel(data):
    x, a, b, c = data
    batch, length, heads, width = x.shape
    state = b.shape[-1]
    gain = a.cumsum(1)
    y = torch.empty_like(x)
    decayed_attention[(triton.cdiv(length, BLOCK_I), batch * heads)](
        x,
        gain,
        b,
        c,
        y,
        length,
        heads,
        P=width,
        N=state,
        BLOCK_P=triton.next_power_of_2(width),
        BLOCK_N=triton.next_power_of_2(state),
        BLOCK_I=BLOCK_I,
        BLOCK_J=BLOCK_J,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return y
