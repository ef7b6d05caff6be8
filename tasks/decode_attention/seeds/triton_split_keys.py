import torch
import triton
import triton.language as tl

KEYS = 64
QUERIES = 16
SPLITS = 16
NUM_WARPS = 4
NUM_STAGES = 3
MERGE_WARPS = 4


@triton.jit
def decode_split(
    q_ptr,
    k_ptr,
    v_ptr,
    lengths_ptr,
    part_ptr,
    stat_ptr,
    cache_length,
    kv_heads,
    group,
    scale,
    DIM: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    SPLITS: tl.constexpr,
):
    split = tl.program_id(0)
    head = tl.program_id(1)
    sequence = tl.program_id(2)
    length = tl.load(lengths_ptr + sequence)
    share = tl.cdiv(tl.cdiv(length, SPLITS), KEYS) * KEYS
    first = split * share
    last = tl.minimum(first + share, length)
    dims = tl.arange(0, DIM)
    queries = tl.arange(0, QUERIES)
    inside = queries < group
    row = (sequence * kv_heads + head) * group + queries
    q = tl.load(q_ptr + row[:, None] * DIM + dims[None, :], mask=inside[:, None], other=0.0)
    base = (sequence.to(tl.int64) * cache_length * kv_heads + head) * DIM
    stride = kv_heads * DIM
    peak = tl.full((QUERIES,), -1e30, dtype=tl.float32)
    total = tl.zeros((QUERIES,), dtype=tl.float32)
    out = tl.zeros((QUERIES, DIM), dtype=tl.float32)
    for start in range(first, last, KEYS):
        keys = start + tl.arange(0, KEYS)
        used = keys < last
        at = base + keys[:, None] * stride + dims[None, :]
        k = tl.load(k_ptr + at, mask=used[:, None], other=0.0)
        v = tl.load(v_ptr + at, mask=used[:, None], other=0.0)
        scores = tl.where(used[None, :], tl.dot(q, tl.trans(k)) * scale, -1e30)
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        total = total * shrink + tl.sum(weights, axis=1)
        out = tl.dot(weights.to(tl.float16), v, out * shrink[:, None])
        peak = new_peak
    slot = row * SPLITS + split
    tl.store(part_ptr + slot[:, None] * DIM + dims[None, :], out, mask=inside[:, None])
    tl.store(stat_ptr + slot * 2, peak, mask=inside)
    tl.store(stat_ptr + slot * 2 + 1, total, mask=inside)


@triton.jit
def merge_splits(part_ptr, stat_ptr, out_ptr, DIM: tl.constexpr, SPLITS: tl.constexpr):
    row = tl.program_id(0)
    slot = row * SPLITS + tl.arange(0, SPLITS)
    dims = tl.arange(0, DIM)
    peak = tl.load(stat_ptr + slot * 2)
    total = tl.load(stat_ptr + slot * 2 + 1)
    factor = tl.exp2(peak - tl.max(peak, axis=0))
    parts = tl.load(part_ptr + slot[:, None] * DIM + dims[None, :])
    out = tl.sum(parts * factor[:, None], axis=0) / tl.sum(total * factor, axis=0)
    tl.store(out_ptr + row * DIM + dims, out.to(tl.float16))


def custom_kernel(data):
    q, k, v, lengths = data
    batch, cache_length, kv_heads, dim = k.shape
    heads = q.shape[1]
    part = torch.empty((batch * heads, SPLITS, dim), device=q.device, dtype=torch.float32)
    stat = torch.empty((batch * heads, SPLITS, 2), device=q.device, dtype=torch.float32)
    out = torch.empty_like(q)
    decode_split[(SPLITS, kv_heads, batch)](
        q,
        k,
        v,
        lengths,
        part,
        stat,
        cache_length,
        kv_heads,
        heads // kv_heads,
        dim**-0.5 * 1.4426950408889634,
        DIM=dim,
        QUERIES=QUERIES,
        KEYS=KEYS,
        SPLITS=SPLITS,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    merge_splits[(batch * heads,)](part, stat, out, DIM=dim, SPLITS=SPLITS, num_warps=MERGE_WARPS)
    return out
