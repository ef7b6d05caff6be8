import torch
import triton
import triton.language as tl

KEYS = 128
NUM_WARPS = 8
MERGE_CHUNKS = 16
MERGE_WARPS = 2


@triton.jit
def decode_chunk(
    q_ptr,
    k_ptr,
    v_ptr,
    lengths_ptr,
    part_ptr,
    peak_ptr,
    total_ptr,
    cache_length,
    kv_heads,
    group,
    scale,
    DIM: tl.constexpr,
    KEYS: tl.constexpr,
):
    pair = tl.program_id(0)
    chunk = tl.program_id(1)
    sequence = pair // kv_heads
    length = tl.load(lengths_ptr + sequence)
    if chunk * KEYS >= length:
        return
    keys = chunk * KEYS + tl.arange(0, KEYS)
    dims = tl.arange(0, DIM)
    used = keys < length
    base = (sequence.to(tl.int64) * cache_length * kv_heads + pair % kv_heads) * DIM
    at = base + keys[:, None] * (kv_heads * DIM) + dims[None, :]
    k = tl.load(k_ptr + at, mask=used[:, None], other=0.0)
    v = tl.load(v_ptr + at, mask=used[:, None], other=0.0)
    for member in range(group):
        row = pair * group + member
        q = tl.load(q_ptr + row * DIM + dims).to(tl.float32) * scale
        scores = tl.where(used, tl.sum(k.to(tl.float32) * q[None, :], axis=1), float("-inf"))
        peak = tl.max(scores, axis=0)
        weights = tl.exp2(scores - peak)
        slot = row * tl.num_programs(1) + chunk
        tl.store(part_ptr + slot * DIM + dims, tl.sum(v.to(tl.float32) * weights[:, None], axis=0))
        tl.store(peak_ptr + slot, peak)
        tl.store(total_ptr + slot, tl.sum(weights, axis=0))


@triton.jit
def merge_chunks(
    part_ptr,
    peak_ptr,
    total_ptr,
    lengths_ptr,
    out_ptr,
    heads,
    chunks,
    DIM: tl.constexpr,
    KEYS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    count = tl.cdiv(tl.load(lengths_ptr + row // heads), KEYS)
    dims = tl.arange(0, DIM)
    peak = float("-inf")
    total = 0.0
    out = tl.zeros((DIM,), dtype=tl.float32)
    for start in range(0, count, BLOCK):
        chunk = start + tl.arange(0, BLOCK)
        inside = chunk < count
        slot = row * chunks + chunk
        peaks = tl.load(peak_ptr + slot, mask=inside, other=float("-inf"))
        totals = tl.load(total_ptr + slot, mask=inside, other=0.0)
        parts = tl.load(part_ptr + slot[:, None] * DIM + dims[None, :], mask=inside[:, None], other=0.0)
        new_peak = tl.maximum(peak, tl.max(peaks, axis=0))
        factor = tl.exp2(peaks - new_peak)
        shrink = tl.exp2(peak - new_peak)
        total = total * shrink + tl.sum(totals * factor, axis=0)
        out = out * shrink + tl.sum(parts * factor[:, None], axis=0)
        peak = new_peak
    tl.store(out_ptr + row * DIM + dims, (out / total).to(tl.float16))


def custom_kernel(data):
    q, k, v, lengths = data
    batch, cache_length, kv_heads, dim = k.shape
    heads = q.shape[1]
    chunks = triton.cdiv(cache_length, KEYS)
    part = torch.empty((batch * heads, chunks, dim), device=q.device, dtype=torch.float32)
    peak = torch.empty((batch * heads, chunks), device=q.device, dtype=torch.float32)
    total = torch.empty_like(peak)
    out = torch.empty_like(q)
    decode_chunk[(batch * kv_heads, chunks)](
        q,
        k,
        v,
        lengths,
        part,
        peak,
        total,
        cache_length,
        kv_heads,
        heads // kv_heads,
        dim**-0.5 * 1.4426950408889634,
        DIM=dim,
        KEYS=KEYS,
        num_warps=NUM_WARPS,
    )
    merge_chunks[(batch * heads,)](
        part, peak, total, lengths, out, heads, chunks, DIM=dim, KEYS=KEYS, BLOCK=MERGE_CHUNKS, num_warps=MERGE_WARPS
    )
    return out
