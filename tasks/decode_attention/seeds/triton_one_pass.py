import torch
import triton
import triton.language as tl

KEYS = 128
QUERIES = 16
NUM_WARPS = 8
NUM_STAGES = 3


@triton.jit
def decode_group(
    q_ptr,
    k_ptr,
    v_ptr,
    lengths_ptr,
    out_ptr,
    cache_length,
    kv_heads,
    group,
    scale,
    DIM: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    head = tl.program_id(0)
    sequence = tl.program_id(1)
    length = tl.load(lengths_ptr + sequence)
    dims = tl.arange(0, DIM)
    queries = tl.arange(0, QUERIES)
    row = (sequence * kv_heads + head) * group + queries
    inside = (queries < group)[:, None]
    q = tl.load(q_ptr + row[:, None] * DIM + dims[None, :], mask=inside, other=0.0)
    base = (sequence.to(tl.int64) * cache_length * kv_heads + head) * DIM
    stride = kv_heads * DIM
    peak = tl.full((QUERIES,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((QUERIES,), dtype=tl.float32)
    out = tl.zeros((QUERIES, DIM), dtype=tl.float32)
    for start in range(0, length, KEYS):
        keys = start + tl.arange(0, KEYS)
        used = keys < length
        k = tl.load(k_ptr + base + keys[None, :] * stride + dims[:, None], mask=used[None, :], other=0.0)
        v = tl.load(v_ptr + base + keys[:, None] * stride + dims[None, :], mask=used[:, None], other=0.0)
        scores = tl.where(used[None, :], tl.dot(q, k) * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        shrink = tl.exp2(peak - new_peak)
        total = total * shrink + tl.sum(weights, axis=1)
        out = tl.dot(weights.to(tl.float16), v, out * shrink[:, None])
        peak = new_peak
    tl.store(out_ptr + row[:, None] * DIM + dims[None, :], (out / total[:, None]).to(tl.float16), mask=inside)


def custom_kernel(data):
    q, k, v, lengths = data
    batch, cache_length, kv_heads, dim = k.shape
    group = q.shape[1] // kv_heads
    out = torch.empty_like(q)
    decode_group[(kv_heads, batch)](
        q,
        k,
        v,
        lengths,
        out,
        cache_length,
        kv_heads,
        group,
        dim**-0.5 * 1.4426950408889634,
        DIM=dim,
        QUERIES=QUERIES,
        KEYS=KEYS,
        num_warps=NUM_WARPS,
        num_stages=NUM_STAGES,
    )
    return out
