import torch
import triton
import triton.language as tl

SPAN = 64
SCAN_BLOCK_V = 16
PRECISION = "tf32x3"
CHUNK_WARPS = 8
SCAN_WARPS = 4
VALUE_WARPS = 4


@triton.jit
def chunk_maps(
    k_ptr,
    w_ptr,
    u_ptr,
    g_ptr,
    transition_ptr,
    added_ptr,
    heads,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    index = tl.program_id(0).to(tl.int64)
    chunk = index // heads
    head = index % heads
    row = tl.arange(0, C)
    keys = tl.arange(0, BLOCK_K)
    cols = tl.arange(0, BLOCK_V)
    token = (chunk * C + row) * heads + head
    last = tl.load(g_ptr + (chunk * C + C - 1) * heads + head)
    factor = tl.exp(last - tl.load(g_ptr + token))
    key_mask = (keys < K)[None, :]
    col_mask = (cols < V)[None, :]
    k = tl.trans(tl.load(k_ptr + token[:, None] * K + keys[None, :], mask=key_mask, other=0.0) * factor[:, None])
    u = tl.load(u_ptr + token[:, None] * V + cols[None, :], mask=col_mask, other=0.0)
    added = tl.dot(k, u, input_precision=PRECISION)
    rows_mask = (keys < K)[:, None]
    tl.store(added_ptr + index * K * V + keys[:, None] * V + cols[None, :], added, mask=rows_mask & col_mask)
    w = tl.load(w_ptr + token[:, None] * K + keys[None, :], mask=key_mask, other=0.0)
    erased = tl.dot(k, w, input_precision=PRECISION)
    transition = tl.where(keys[:, None] == keys[None, :], tl.exp(last), 0.0) - erased
    at = index * K * K + keys[:, None] * K + keys[None, :]
    tl.store(transition_ptr + at, transition, mask=rows_mask & key_mask)


@triton.jit
def scan_states(
    transition_ptr,
    added_ptr,
    h_ptr,
    chunks,
    heads,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    PRECISION: tl.constexpr,
):
    pair = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK_V + tl.arange(0, BLOCK_V)
    keys = tl.arange(0, BLOCK_K)
    rows_mask = (keys < K)[:, None]
    first = (pair // heads).to(tl.int64) * chunks * heads + pair % heads
    state = tl.zeros([BLOCK_K, BLOCK_V], dtype=tl.float32)
    for c in range(0, chunks):
        index = first + c * heads
        at = index * K * V + keys[:, None] * V + cols[None, :]
        tl.store(h_ptr + at, state, mask=rows_mask)
        added = tl.load(added_ptr + at, mask=rows_mask, other=0.0)
        at = index * K * K + keys[:, None] * K + keys[None, :]
        transition = tl.load(transition_ptr + at, mask=rows_mask & (keys < K)[None, :], other=0.0)
        state = tl.dot(transition, state, acc=added, input_precision=PRECISION)


@triton.jit
def new_values(
    w_ptr,
    u_ptr,
    h_ptr,
    v_ptr,
    heads,
    K: tl.constexpr,
    V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    C: tl.constexpr,
    PRECISION: tl.constexpr,
):
    index = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, C)
    keys = tl.arange(0, BLOCK_K)
    cols = tl.arange(0, BLOCK_V)
    token = (index // heads * C + row) * heads + index % heads
    col_mask = (cols < V)[None, :]
    w = tl.load(w_ptr + token[:, None] * K + keys[None, :], mask=(keys < K)[None, :], other=0.0)
    at = index * K * V + keys[:, None] * V + cols[None, :]
    state = tl.load(h_ptr + at, mask=(keys < K)[:, None] & col_mask, other=0.0)
    at = token[:, None] * V + cols[None, :]
    u = tl.load(u_ptr + at, mask=col_mask, other=0.0)
    tl.store(v_ptr + at, u - tl.dot(w, state, input_precision=PRECISION), mask=col_mask)


def custom_kernel(data):
    k, w, u, g = data
    batch, length, heads, key = k.shape
    value = u.shape[-1]
    chunks = length // SPAN
    count = batch * chunks * heads
    at = {"device": k.device, "dtype": k.dtype}
    transition = torch.empty((count, key, key), **at)
    added = torch.empty((count, key, value), **at)
    h = torch.empty((batch, chunks, heads, key, value), **at)
    v_new = torch.empty_like(u)
    shape = {"K": key, "V": value, "BLOCK_K": triton.next_power_of_2(key), "PRECISION": PRECISION}
    wide = {**shape, "BLOCK_V": triton.next_power_of_2(value), "C": SPAN}
    chunk_maps[(count,)](k, w, u, g, transition, added, heads, **wide, num_warps=CHUNK_WARPS)
    scan_states[(batch * heads, value // SCAN_BLOCK_V)](
        transition, added, h, chunks, heads, **shape, BLOCK_V=SCAN_BLOCK_V, num_warps=SCAN_WARPS
    )
    new_values[(count,)](w, u, h, v_new, heads, **wide, num_warps=VALUE_WARPS)
    return h, v_new
