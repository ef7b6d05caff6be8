import torch
import triton
import triton.language as tl

CHUNK = 64
SCAN_BLOCK = 256
PRECISION = "tf32"
STATE_WARPS = 4
SCAN_WARPS = 4
OUT_WARPS = 4


@triton.jit
def chunk_states(
    x_ptr,
    a_ptr,
    b_ptr,
    states_ptr,
    heads,
    P: tl.constexpr,
    N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    index = tl.program_id(0).to(tl.int64)
    token = (index // heads * C + tl.arange(0, C)) * heads + index % heads
    cols = tl.arange(0, BLOCK_P)
    places = tl.arange(0, BLOCK_N)
    a = tl.load(a_ptr + token)
    factor = tl.exp(tl.sum(a, axis=0) - tl.cumsum(a, axis=0))
    b = tl.load(b_ptr + token[:, None] * N + places[None, :], mask=(places < N)[None, :], other=0.0)
    x = tl.load(x_ptr + token[:, None] * P + cols[None, :], mask=(cols < P)[None, :], other=0.0)
    states = tl.dot(tl.trans(b * factor[:, None]), x, input_precision=PRECISION)
    at = index * N * P + places[:, None] * P + cols[None, :]
    tl.store(states_ptr + at, states, mask=(places < N)[:, None] & (cols < P)[None, :])


@triton.jit
def scan_states(a_ptr, states_ptr, chunks, heads, SIZE: tl.constexpr, BLOCK: tl.constexpr, C: tl.constexpr):
    batch = (tl.program_id(1) // heads).to(tl.int64)
    head = tl.program_id(1) % heads
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros([BLOCK], dtype=tl.float32)
    for i in range(0, chunks):
        chunk = batch * chunks + i
        token = (chunk * C + tl.arange(0, C)) * heads + head
        kept = tl.exp(tl.sum(tl.load(a_ptr + token), axis=0))
        place = states_ptr + (chunk * heads + head) * SIZE + at
        added = tl.load(place, mask=at < SIZE, other=0.0)
        tl.store(place, state, mask=at < SIZE)
        state = state * kept + added


@triton.jit
def chunk_outputs(
    x_ptr,
    a_ptr,
    b_ptr,
    c_ptr,
    states_ptr,
    y_ptr,
    heads,
    P: tl.constexpr,
    N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    index = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, C)
    token = (index // heads * C + row) * heads + index % heads
    cols = tl.arange(0, BLOCK_P)
    places = tl.arange(0, BLOCK_N)
    gain = tl.cumsum(tl.load(a_ptr + token), axis=0)
    place_mask = (places < N)[None, :]
    col_mask = (cols < P)[None, :]
    b = tl.load(b_ptr + token[:, None] * N + places[None, :], mask=place_mask, other=0.0)
    c = tl.load(c_ptr + token[:, None] * N + places[None, :], mask=place_mask, other=0.0)
    gap = tl.where(row[:, None] >= row[None, :], gain[:, None] - gain[None, :], float("-inf"))
    weights = tl.dot(c, tl.trans(b), input_precision=PRECISION) * tl.exp(gap)
    x = tl.load(x_ptr + token[:, None] * P + cols[None, :], mask=col_mask, other=0.0)
    y = tl.dot(weights, x, input_precision=PRECISION)
    at = index * N * P + places[:, None] * P + cols[None, :]
    state = tl.load(states_ptr + at, mask=(places < N)[:, None] & col_mask, other=0.0)
    y = tl.dot(c * tl.exp(gain)[:, None], state, acc=y, input_precision=PRECISION)
    tl.store(y_ptr + token[:, None] * P + cols[None, :], y, mask=col_mask)


def custom_kernel(data):
    x, a, b, c = data
    batch, length, heads, width = x.shape
    state = b.shape[-1]
    chunks = length // CHUNK
    count = batch * chunks * heads
    states = torch.empty((count, state, width), device=x.device, dtype=x.dtype)
    y = torch.empty_like(x)
    shape = {
        "P": width,
        "N": state,
        "BLOCK_P": triton.next_power_of_2(width),
        "BLOCK_N": triton.next_power_of_2(state),
        "C": CHUNK,
        "PRECISION": PRECISION,
    }
    chunk_states[(count,)](x, a, b, states, heads, **shape, num_warps=STATE_WARPS)
    grid = (triton.cdiv(state * width, SCAN_BLOCK), batch * heads)
    scan_states[grid](a, states, chunks, heads, SIZE=state * width, BLOCK=SCAN_BLOCK, C=CHUNK, num_warps=SCAN_WARPS)
    chunk_outputs[(count,)](x, a, b, c, states, y, heads, **shape, num_warps=OUT_WARPS)
    return y
