import torch
import triton
import triton.language as tl

GROUPS = 32
EPS = 1e-5
CHUNK = 4096
CHUNK_WARPS = 4
MERGE_WARPS = 1
BLOCK = 4096
APPLY_WARPS = 8


@triton.jit
def chunk_moments(x_ptr, mean_ptr, spread_ptr, size, CHUNK: tl.constexpr):
    group = tl.program_id(1).to(tl.int64)
    part = tl.program_id(0)
    index = part * CHUNK + tl.arange(0, CHUNK)
    mask = index < size
    x = tl.load(x_ptr + group * size + index, mask=mask, other=0.0).to(tl.float32)
    count = tl.minimum(size - part * CHUNK, CHUNK)
    mean = tl.sum(x, axis=0) / count
    centred = tl.where(mask, x - mean, 0.0)
    slot = group * tl.num_programs(0) + part
    tl.store(mean_ptr + slot, mean)
    tl.store(spread_ptr + slot, tl.sum(centred * centred, axis=0))


@triton.jit
def merge_moments(
    mean_ptr,
    spread_ptr,
    w_ptr,
    b_ptr,
    scale_ptr,
    shift_ptr,
    size,
    parts,
    per_group,
    eps,
    GROUPS: tl.constexpr,
    CHUNK: tl.constexpr,
    PARTS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    group = tl.program_id(0)
    slots = tl.arange(0, PARTS)
    means = tl.load(mean_ptr + group * parts + slots, mask=slots < parts, other=0.0)
    spreads = tl.load(spread_ptr + group * parts + slots, mask=slots < parts, other=0.0)
    counts = tl.maximum(tl.minimum(size - slots * CHUNK, CHUNK), 0).to(tl.float32)
    mean = tl.sum(means * counts, axis=0) / size
    distance = means - mean
    variance = (tl.sum(spreads, axis=0) + tl.sum(counts * distance * distance, axis=0)) / size
    rstd = tl.math.rsqrt(variance + eps)
    channel = tl.arange(0, CHANNELS)
    mask = channel < per_group
    place = (group % GROUPS) * per_group + channel
    scale = rstd * tl.load(w_ptr + place, mask=mask, other=0.0).to(tl.float32)
    shift = tl.load(b_ptr + place, mask=mask, other=0.0).to(tl.float32) - mean * scale
    tl.store(scale_ptr + group * per_group + channel, scale, mask=mask)
    tl.store(shift_ptr + group * per_group + channel, shift, mask=mask)


@triton.jit
def scale_shift(x_ptr, scale_ptr, shift_ptr, out_ptr, spatial, numel, BLOCK: tl.constexpr):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = index < numel
    plane = index // spatial
    x = tl.load(x_ptr + index, mask=mask, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr + plane, mask=mask, other=0.0)
    shift = tl.load(shift_ptr + plane, mask=mask, other=0.0)
    tl.store(out_ptr + index, (x * scale + shift).to(out_ptr.dtype.element_ty), mask=mask)


def custom_kernel(data):
    x, weight, bias = data
    batch, channels, height, width = x.shape
    spatial = height * width
    per_group = channels // GROUPS
    size = per_group * spatial
    groups = batch * GROUPS
    parts = triton.cdiv(size, CHUNK)
    means = torch.empty((groups, parts), device=x.device, dtype=torch.float32)
    spreads = torch.empty_like(means)
    scale = torch.empty((groups, per_group), device=x.device, dtype=torch.float32)
    shift = torch.empty_like(scale)
    out = torch.empty_like(x)
    chunk_moments[(parts, groups)](x, means, spreads, size, CHUNK=CHUNK, num_warps=CHUNK_WARPS)
    merge_moments[(groups,)](
        means,
        spreads,
        weight,
        bias,
        scale,
        shift,
        size,
        parts,
        per_group,
        EPS,
        GROUPS=GROUPS,
        CHUNK=CHUNK,
        PARTS=triton.next_power_of_2(parts),
        CHANNELS=triton.next_power_of_2(per_group),
        num_warps=MERGE_WARPS,
    )
    grid = (triton.cdiv(x.numel(), BLOCK),)
    scale_shift[grid](x, scale, shift, out, spatial, x.numel(), BLOCK=BLOCK, num_warps=APPLY_WARPS)
    return out
