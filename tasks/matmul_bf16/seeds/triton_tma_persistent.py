import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

PROGRAMS = 132
GROUP_M = 8
ALIGNMENT = 8
NARROW_M = 64
WIDE = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
NARROW = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 128, "num_warps": 4, "num_stages": 4}
DOT_TYPES = {"cuda": tl.bfloat16, "cpu": tl.float32}


@triton.jit
def place_of(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    band = tile // (GROUP_M * tiles_n)
    height = tl.minimum(tiles_m - band * GROUP_M, GROUP_M)
    within = tile % (GROUP_M * tiles_n)
    return band * GROUP_M + within % height, within // height


@triton.jit
def matmul_tma(
    a_desc,
    b_desc,
    out_ptr,
    m,
    n,
    k,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    DOT: tl.constexpr,
):
    tiles_m = tl.cdiv(m, BLOCK_M)
    tiles_n = tl.cdiv(n, BLOCK_N)
    steps = tl.cdiv(k, BLOCK_K)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        tile_m, tile_n = place_of(tile, tiles_m, tiles_n, GROUP_M)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(steps):
            a = a_desc.load([tile_m * BLOCK_M, step * BLOCK_K])
            b = b_desc.load([step * BLOCK_K, tile_n * BLOCK_N])
            total = tl.dot(a.to(DOT), b.to(DOT), total)
        rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        mask = (rows < m)[:, None] & (cols < n)[None, :]
        tl.store(out_ptr + rows[:, None] * n + cols[None, :], total.to(tl.bfloat16), mask=mask)


def aligned(matrix):
    extra = -matrix.shape[1] % ALIGNMENT
    return torch.nn.functional.pad(matrix, (0, extra)) if extra else matrix


def custom_kernel(data):
    a, b = data
    m, k = a.shape
    n = b.shape[1]
    out = torch.empty((m, n), device=a.device, dtype=a.dtype)
    shape = NARROW if m <= NARROW_M else WIDE
    tiles = triton.cdiv(m, shape["BLOCK_M"]) * triton.cdiv(n, shape["BLOCK_N"])
    matmul_tma[(min(PROGRAMS, tiles),)](
        TensorDescriptor.from_tensor(aligned(a), [shape["BLOCK_M"], shape["BLOCK_K"]]),
        TensorDescriptor.from_tensor(aligned(b), [shape["BLOCK_K"], shape["BLOCK_N"]]),
        out,
        m,
        n,
        k,
        GROUP_M=GROUP_M,
        DOT=DOT_TYPES[a.device.type],
        **shape,
    )
    return out
