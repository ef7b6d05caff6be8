import torch
import triton
import triton.language as tl

QUERIES = 16
SCORE_KEYS = 128
SCORE_WARPS = 4
ROW_BLOCK = 4096
ROW_WARPS = 8
VALUE_KEYS = 64
VALUE_SPLITS = 8
VALUE_WARPS = 4
SUM_WARPS = 2


@triton.jit
def all_scores(
    q_ptr,
    k_ptr,
    lengths_ptr,
    score_ptr,
    cache_length,
    kv_heads,
    group,
    scale,
    DIM: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    pair = tl.program_id(1)
    sequence = pair // kv_heads
    length = tl.load(lengths_ptr + sequence)
    keys = tl.program_id(0) * KEYS + tl.arange(0, KEYS)
    dims = tl.arange(0, DIM)
    queries = tl.arange(0, QUERIES)
    row = pair * group + queries
    used = keys < length
    base = (sequence.to(tl.int64) * cache_length * kv_heads + pair % kv_heads) * DIM
    q = tl.load(q_ptr + row[:, None] * DIM + dims[None, :], mask=(queries < group)[:, None], other=0.0)
    k = tl.load(k_ptr + base + keys[None, :] * (kv_heads * DIM) + dims[:, None], mask=used[None, :], other=0.0)
    scores = tl.dot(q, k) * scale
    target = score_ptr + row.to(tl.int64)[:, None] * cache_length + keys[None, :]
    tl.store(target, scores, mask=(queries < group)[:, None] & used[None, :])


@triton.jit
def row_statistics(score_ptr, lengths_ptr, stat_ptr, cache_length, heads, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    length = tl.load(lengths_ptr + row // heads)
    lane = tl.arange(0, BLOCK)
    base = score_ptr + row.to(tl.int64) * cache_length
    peak = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, length, BLOCK):
        scores = tl.load(base + start + lane, mask=start + lane < length, other=float("-inf"))
        new_peak = tl.maximum(peak, scores)
        total = total * tl.exp2(peak - new_peak) + tl.exp2(scores - new_peak)
        peak = new_peak
    top = tl.max(peak, axis=0)
    sum_all = tl.sum(total * tl.exp2(peak - top), axis=0)
    tl.store(stat_ptr + row, top + tl.log2(sum_all))


@triton.jit
def weighted_values(
    score_ptr,
    stat_ptr,
    v_ptr,
    lengths_ptr,
    part_ptr,
    cache_length,
    kv_heads,
    group,
    DIM: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    split = tl.program_id(0)
    pair = tl.program_id(1)
    sequence = pair // kv_heads
    length = tl.load(lengths_ptr + sequence)
    dims = tl.arange(0, DIM)
    queries = tl.arange(0, QUERIES)
    inside = queries < group
    row = pair * group + queries
    base = (sequence.to(tl.int64) * cache_length * kv_heads + pair % kv_heads) * DIM
    offset = tl.load(stat_ptr + row, mask=inside, other=0.0)
    out = tl.zeros((QUERIES, DIM), dtype=tl.float32)
    for start in range(split * KEYS, length, tl.num_programs(0) * KEYS):
        keys = start + tl.arange(0, KEYS)
        used = keys < length
        scores = tl.load(
            score_ptr + row.to(tl.int64)[:, None] * cache_length + keys[None, :],
            mask=inside[:, None] & used[None, :],
            other=float("-inf"),
        )
        v = tl.load(v_ptr + base + keys[:, None] * (kv_heads * DIM) + dims[None, :], mask=used[:, None], other=0.0)
        out = tl.dot(tl.exp2(scores - offset[:, None]).to(tl.float16), v, out)
    slot = row * tl.num_programs(0) + split
    tl.store(part_ptr + slot[:, None] * DIM + dims[None, :], out, mask=inside[:, None])


@triton.jit
def sum_splits(part_ptr, out_ptr, DIM: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0)
    dims = tl.arange(0, DIM)
    slot = row * SPLITS + tl.arange(0, SPLITS)
    parts = tl.load(part_ptr + slot[:, None] * DIM + dims[None, :])
    tl.store(out_ptr + row * DIM + dims, tl.sum(parts, axis=0).to(tl.float16))


def custom_kernel(data):
    q, k, v, lengths = data
    batch, cache_length, kv_heads, dim = k.shape
    heads = q.shape[1]
    group = heads // kv_heads
    scores = torch.empty((batch * heads, cache_length), device=q.device, dtype=torch.float32)
    stat = torch.empty((batch * heads,), device=q.device, dtype=torch.float32)
    part = torch.empty((batch * heads, VALUE_SPLITS, dim), device=q.device, dtype=torch.float32)
    out = torch.empty_like(q)
    all_scores[(triton.cdiv(cache_length, SCORE_KEYS), batch * kv_heads)](
        q,
        k,
        lengths,
        scores,
        cache_length,
        kv_heads,
        group,
        dim**-0.5 * 1.4426950408889634,
        DIM=dim,
        QUERIES=QUERIES,
        KEYS=SCORE_KEYS,
        num_warps=SCORE_WARPS,
    )
    row_statistics[(batch * heads,)](scores, lengths, stat, cache_length, heads, BLOCK=ROW_BLOCK, num_warps=ROW_WARPS)
    weighted_values[(VALUE_SPLITS, batch * kv_heads)](
        scores,
        stat,
        v,
        lengths,
        part,
        cache_length,
        kv_heads,
        group,
        DIM=dim,
        QUERIES=QUERIES,
        KEYS=VALUE_KEYS,
        num_warps=VALUE_WARPS,
    )
    sum_splits[(batch * heads,)](part, out, DIM=dim, SPLITS=VALUE_SPLITS, num_warps=SUM_WARPS)
    return out
