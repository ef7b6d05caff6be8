import torch
import triton
import triton.language as tl

CHUNK = 64
BLOCK_P = 32
PRECISION = "tf32"
NUM_WARPS = 4
NUM_STAGES = 2


@triton.jit
def sequential_chunks(
    x_ptr,
    a_ptr,
    b_ptr,
    c_ptr,
    y_ptr,
    length,
    heads,
    P: tl.constexpr,
    N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    cols = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    col_mask = (cols < P)[None, :]
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    row = tl.arange(0, C)
    places = tl.arange(0, BLOCK_N)
    place_mask = (places < N)[None, :]
    state = tl.zeros([BLOCK_N, BLOCK_P], dtype=tl.float32)
    for start in range(0, length, C):
        token = (batch * length + start + row) * heads + head
        a = tl.load(a_ptr + token)
        gain = tl.cumsum(a, axis=0)
        last = tl.sum(a, axis=0)
        b = tl.load(b_ptr + token[:, None] * N + places[None, :], mask=place_mask, other=0.0)
        c = tl.load(c_ptr + token[:, None] * N + places[None, :], mask=place_mask, other=0.0)
        x = tl.load(x_ptr + token[:, None] * P + cols[None, :], mask=col_mask, other=0.0)
        weights = tl.dot(c, tl.trans(b), input_precision=PRECISION)
        gap = tl.minimum(gain[:, None] - gain[None, :], 0.0)
        weights = tl.where(row[:, None] >= row[None, :], weights * tl.exp(gap), 0.0)
        y = tl.dot(c, state, input_precision=PRECISION) * tl.exp(gain)[:, None]
        y = tl.dot(weights, x, acc=y, input_precision=PRECISION)
        tl.store(y_ptr + token[:, None] * P + cols[None, :], y, mask=col_mask)
        added = tl.trans(b * tl.exp(last - gain)[:, None])
        state = tl.dot(added, x, acc=state * tl.exp(last), input_precision=PRECISION)


def custom_kernel(data):
    x, a, b, c = data
    batch, length, heads, width = x.shape
    state = b.shape[-1]
    y = torch.empty_like(x)
    sequential_chunks[(triton.cdiv(width, BLOCK_P), batch * heads)](
        x,
        a,
        b,
        c,
        y,
        length,
        heads,
        P=width,
        N=state,
        BLOCK_P=BLOCK_P,
        BLOCK_N=triton.next_power_of_2(state),
        C=CHUNK,
        PRECISION=PRECISION,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return y
