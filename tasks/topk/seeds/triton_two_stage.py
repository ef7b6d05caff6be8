import torch
import triton
import triton.language as tl

K = 8
CHUNK = 2048
CHUNK_WARPS = 4
MERGE_WARPS = 1


@triton.jit
def topk_chunk(x_ptr, values_ptr, indices_ptr, n, K: tl.constexpr, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    cols = part * CHUNK + tl.arange(0, CHUNK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
    slot = (row * tl.num_programs(1) + part) * K
    for place in range(K):
        value = tl.max(x, axis=0)
        index = part * CHUNK + tl.argmax(x, axis=0)
        tl.store(values_ptr + slot + place, value)
        tl.store(indices_ptr + slot + place, index)
        x = tl.where(cols == index, -float("inf"), x)


@triton.jit
def merge_chunks(candidate_ptr, column_ptr, values_ptr, indices_ptr, count, K: tl.constexpr, CANDIDATES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    slots = tl.arange(0, CANDIDATES)
    x = tl.load(candidate_ptr + row * count + slots, mask=slots < count, other=-float("inf"))
    columns = tl.load(column_ptr + row * count + slots, mask=slots < count, other=0)
    for place in range(K):
        slot = tl.argmax(x, axis=0)
        chosen = slots == slot
        tl.store(values_ptr + row * K + place, tl.max(x, axis=0))
        tl.store(indices_ptr + row * K + place, tl.sum(tl.where(chosen, columns, 0), axis=0).to(tl.int64))
        x = tl.where(chosen, -float("inf"), x)


def custom_kernel(data):
    (x,) = data
    rows, n = x.shape
    parts = triton.cdiv(n, CHUNK)
    candidates = torch.empty((rows, parts * K), device=x.device, dtype=x.dtype)
    columns = torch.empty((rows, parts * K), device=x.device, dtype=torch.int32)
    values = torch.empty((rows, K), device=x.device, dtype=x.dtype)
    indices = torch.empty((rows, K), device=x.device, dtype=torch.int64)
    topk_chunk[(rows, parts)](x, candidates, columns, n, K=K, CHUNK=CHUNK, num_warps=CHUNK_WARPS)
    merge_chunks[(rows,)](
        candidates,
        columns,
        values,
        indices,
        parts * K,
        K=K,
        CANDIDATES=triton.next_power_of_2(parts * K),
        num_warps=MERGE_WARPS,
    )
    return values, indices
