import torch
import triton
import triton.language as tl

CHUNK = 64
STATE_BLOCK_P = 16
ROWS = 32
BLOCK_P = 32
PRECISION = "tf32"
STATE_WARPS = 4
STATE_STAGES = 3
OUT_WARPS = 4


@triton.jit
def states_before_chunks(
    x_ptr,
    gain_ptr,
    b_ptr,
    states_ptr,
    chunks,
    heads,
    P: tl.constexpr,
    N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    cols = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    places = tl.arange(0, BLOCK_N)
    mask = (places < N)[:, None] & (cols < P)[None, :]
    state = tl.zeros([BLOCK_N, BLOCK_P], dtype=tl.float32)
    for i in range(0, chunks):
        chunk = batch * chunks + i
        at = (chunk * heads + head) * N * P + places[:, None] * P + cols[None, :]
        tl.store(states_ptr + at, state, mask=mask)
        token = (chunk * C + tl.arange(0, C)) * heads + head
        last = tl.load(gain_ptr + (chunk * C + C - 1) * heads + head)
        factor = tl.exp(last - tl.load(gain_ptr + token))
        b = tl.load(b_ptr + token[None, :] * N + places[:, None], mask=(places < N)[:, None], other=0.0)
        x = tl.load(x_ptr + token[:, None] * P + cols[None, :], mask=(cols < P)[None, :], other=0.0)
        state = tl.dot(b * factor[None, :], x, acc=state * tl.exp(last), input_precision=PRECISION)


@triton.jit
def row_outputs(
    x_ptr,
    gain_ptr,
    b_ptr,
    c_ptr,
    states_ptr,
    y_ptr,
    heads,
    P: tl.constexpr,
    N: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    cols = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    first = tl.program_id(1) * ROWS
    index = tl.program_id(2).to(tl.int64)
    row = first + tl.arange(0, ROWS)
    chunk = index // heads
    head = index % heads
    token = (chunk * C + row) * heads + head
    places = tl.arange(0, BLOCK_N)
    place_mask = (places < N)[None, :]
    col_mask = (cols < P)[None, :]
    gain = tl.load(gain_ptr + token)
    c = tl.load(c_ptr + token[:, None] * N + places[None, :], mask=place_mask, other=0.0)
    at = index * N * P + places[:, None] * P + cols[None, :]
    state = tl.load(states_ptr + at, mask=(places < N)[:, None] & col_mask, other=0.0)
    y = tl.dot(c, state, input_precision=PRECISION) * tl.exp(gain)[:, None]
    for start in range(0, first + ROWS, ROWS):
        other = start + tl.arange(0, ROWS)
        source = (chunk * C + other) * heads + head
        b = tl.load(b_ptr + source[:, None] * N + places[None, :], mask=place_mask, other=0.0)
        gap = gain[:, None] - tl.load(gain_ptr + source)[None, :]
        gap = tl.where(row[:, None] >= other[None, :], gap, float("-inf"))
        weights = tl.dot(c, tl.trans(b), input_precision=PRECISION) * tl.exp(gap)
        x = tl.load(x_ptr + source[:, None] * P + cols[None, :], mask=col_mask, other=0.0)
        y += tl.dot(weights, x, input_precision=PRECISION)
    tl.store(y_ptr + token[:, None] * P + cols[None, :], y, mask=col_mask)


def custom_kernel(data):
    x, a, b, c = data
    batch, length, heads, width = x.shape
    state = b.shape[-1]
    chunks = length // CHUNK
    count = batch * chunks * heads
    gain = a.view(batch, chunks, CHUNK, heads).cumsum(2)
    states = torch.empty((count, state, width), device=x.device, dtype=x.dtype)
    y = torch.empty_like(x)
    shape = {
        "P": width,
        "N": state,
        "BLOCK_N": triton.next_power_of_2(state),
        "C": CHUNK,
        "PRECISION": PRECISION,
    }
    states_before_chunks[(triton.cdiv(width, STATE_BLOCK_P), batch * heads)](
        x,
        gain,
        b,
        states,
        chunks,
        heads,
        **shape,
        BLOCK_P=STATE_BLOCK_P,
        num_warps=STATE_WARPS,
        num_stages=STATE_STAGES,
    )
    row_outputs[(triton.cdiv(width, BLOCK_P), CHUNK // ROWS, count)](
        x, gain, b, c, states, y, heads, **shape, ROWS=ROWS, BLOCK_P=BLOCK_P, num_warps=OUT_WARPS
    )
    return y
