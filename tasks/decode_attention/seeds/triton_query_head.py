import torch
import triton
import triton.language as tl

KEYS = 64
NUM_WARPS = 4


@triton.jit
def decode_head(
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
    KEYS: tl.constexpr,
):
    head = tl.program_id(0)
    sequence = tl.program_id(1)
    length = tl.load(lengths_ptr + sequence)
    dims = tl.arange(0, DIM)
    row = sequence * tl.num_programs(0) + head
    q = tl.load(q_ptr + row * DIM + dims).to(tl.float32) * scale
    base = (sequence.to(tl.int64) * cache_length * kv_heads + head // group) * DIM
    stride = kv_heads * DIM
    peak = float("-inf")
    total = 0.0
    out = tl.zeros((DIM,), dtype=tl.float32)
    for start in range(0, length, KEYS):
        keys = start + tl.arange(0, KEYS)
        used = keys < length
        at = base + keys[:, None] * stride + dims[None, :]
        k = tl.load(k_ptr + at, mask=used[:, None], other=0.0).to(tl.float32)
        v = tl.load(v_ptr + at, mask=used[:, None], other=0.0).to(tl.float32)
        scores = tl.where(used, tl.sum(k * q[None, :], axis=1), float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=0))
        weights = tl.exp(scores - new_peak)
        shrink = tl.exp(peak - new_peak)
        total = total * shrink + tl.sum(weights, axis=0)
        out = out * shrink + tl.sum(weights[:, None] * v, axis=0)
        peak = new_peak
    tl.store(out_ptr + row * DIM + dims, (out / total).to(tl.float16))


def custom_kernel(data):
    q, k, v, lengths = data
    batch, cache_length, kv_heads, dim = k.shape
    heads = q.shape[1]
    out = torch.empty_like(q)
    decode_head[(heads, batch)](
        q,
        k,
        v,
        lengths,
        out,
        cache_length,
        kv_heads,
        heads // kv_heads,
        dim**-0.5,
        DIM=dim,
        KEYS=KEYS,
        num_warps=NUM_WARPS,
    )
    return out
