import torch

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 32
STAGES = 3
WARPS_M = 4
WARPS_N = 2
PAD = 8

SOURCE = r"""
typedef unsigned short u16;
typedef unsigned int u32;
#define THREADS (WARPS_M * WARPS_N * 32)
#define WARP_M (BLOCK_M / WARPS_M)
#define WARP_N (BLOCK_N / WARPS_N)
#define STRIDE (BLOCK_K + PAD)
#define ROW_PACKS (BLOCK_K / 8)
#define STAGE_ELEMENTS ((BLOCK_M + BLOCK_N) * STRIDE)

struct alignas(16) pack {
  u16 lane[8];
};

__device__ __forceinline__ float widen(u16 v) { return __uint_as_float(static_cast<u32>(v) << 16); }

__device__ __forceinline__ u16 narrow(float v) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

__device__ __forceinline__ float gelu(float z) {
  return z / (1.0f + __expf(-1.5957691216057308f * (z + 0.044715f * z * z * z)));
}

__device__ __forceinline__ void multiply_add(float* c, const u32* a, const u32* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside) {
  const u32 address = static_cast<u32>(__cvta_generic_to_shared(to));
  const int size = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(size) : "memory");
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
}

__device__ __forceinline__ u32 pair(const u16* p) { return *reinterpret_cast<const u32*>(p); }

__device__ __forceinline__ void load_strip(u16* tile, const u16* base, int first, int start, int rows, int depth,
                                           int count) {
  for (int p = threadIdx.x; p < count * ROW_PACKS; p += THREADS) {
    const int row = first + p / ROW_PACKS;
    const int inner = start + p % ROW_PACKS * 8;
    u16* to = tile + p / ROW_PACKS * STRIDE + p % ROW_PACKS * 8;
#if ALIGNED
    const bool inside = row < rows && inner < depth;
    copy_async(to, inside ? base + static_cast<long long>(row) * depth + inner : base, inside);
#else
    for (int i = 0; i < 8; ++i) {
      const bool inside = row < rows && inner + i < depth;
      to[i] = inside ? base[static_cast<long long>(row) * depth + inner + i] : static_cast<u16>(0);
    }
#endif
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
linear_gelu(const u16* x, const u16* weight, const u16* bias, u16* out, int m, int n, int k) {
  extern __shared__ __align__(16) u16 stages[];
  const int first_row = blockIdx.x * BLOCK_M;
  const int first_col = blockIdx.y * BLOCK_N;
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int warp_row = warp / WARPS_N * WARP_M;
  const int warp_col = warp % WARPS_N * WARP_N;
  const int quad = lane >> 2;
  const int spot = (lane & 3) * 2;
  const int steps = (k + BLOCK_K - 1) / BLOCK_K;
  float total[WARP_M / 16][WARP_N / 8][4] = {};

  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < steps) {
      u16* tile = stages + s * STAGE_ELEMENTS;
      load_strip(tile, x, first_row, s * BLOCK_K, m, k, BLOCK_M);
      load_strip(tile + BLOCK_M * STRIDE, weight, first_col, s * BLOCK_K, n, k, BLOCK_N);
    }
    commit_copies();
  }
  for (int step = 0; step < steps; ++step) {
    wait_copies();
    __syncthreads();
    const int ahead = step + STAGES - 1;
    if (ahead < steps) {
      u16* tile = stages + ahead % STAGES * STAGE_ELEMENTS;
      load_strip(tile, x, first_row, ahead * BLOCK_K, m, k, BLOCK_M);
      load_strip(tile + BLOCK_M * STRIDE, weight, first_col, ahead * BLOCK_K, n, k, BLOCK_N);
    }
    commit_copies();
    const u16* x_tile = stages + step % STAGES * STAGE_ELEMENTS;
    const u16* w_tile = x_tile + BLOCK_M * STRIDE;
#pragma unroll
    for (int depth = 0; depth < BLOCK_K; depth += 16) {
      u32 a_part[WARP_M / 16][4], b_part[WARP_N / 8][2];
#pragma unroll
      for (int i = 0; i < WARP_M / 16; ++i) {
        const u16* from = x_tile + (warp_row + i * 16 + quad) * STRIDE + depth + spot;
        a_part[i][0] = pair(from);
        a_part[i][1] = pair(from + 8 * STRIDE);
        a_part[i][2] = pair(from + 8);
        a_part[i][3] = pair(from + 8 * STRIDE + 8);
      }
#pragma unroll
      for (int j = 0; j < WARP_N / 8; ++j) {
        const u16* from = w_tile + (warp_col + j * 8 + quad) * STRIDE + depth + spot;
        b_part[j][0] = pair(from);
        b_part[j][1] = pair(from + 8);
      }
#pragma unroll
      for (int i = 0; i < WARP_M / 16; ++i)
#pragma unroll
        for (int j = 0; j < WARP_N / 8; ++j) multiply_add(total[i][j], a_part[i], b_part[j]);
    }
  }
#pragma unroll
  for (int i = 0; i < WARP_M / 16; ++i)
#pragma unroll
    for (int j = 0; j < WARP_N / 8; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int row = first_row + warp_row + i * 16 + quad + c / 2 * 8;
        const int col = first_col + warp_col + j * 8 + spot + c % 2;
        if (row < m && col < n) {
          out[static_cast<long long>(row) * n + col] = narrow(gelu(total[i][j][c] + widen(bias[col])));
        }
      }
}
"""

kernels = {}
SHARED_BYTES = STAGES * (BLOCK_M + BLOCK_N) * (BLOCK_K + PAD) * 2


def compiled(aligned):
    if aligned not in kernels:
        constants = {
            "BLOCK_M": BLOCK_M,
            "BLOCK_N": BLOCK_N,
            "BLOCK_K": BLOCK_K,
            "STAGES": STAGES,
            "WARPS_M": WARPS_M,
            "WARPS_N": WARPS_N,
            "PAD": PAD,
            "ALIGNED": int(aligned),
        }
        defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
        kernels[aligned] = torch.cuda._compile_kernel(defines + SOURCE, "linear_gelu")
        kernels[aligned].set_shared_memory_config(SHARED_BYTES)
    return kernels[aligned]


def custom_kernel(data):
    x, weight, bias = data
    m, k = x.shape
    n = weight.shape[0]
    out = torch.empty((m, n), device=x.device, dtype=x.dtype)
    grid = ((m + BLOCK_M - 1) // BLOCK_M, (n + BLOCK_N - 1) // BLOCK_N, 1)
    compiled(k % 8 == 0)(
        grid=grid,
        block=(WARPS_M * WARPS_N * 32, 1, 1),
        args=[x, weight, bias, out, m, n, k],
        shared_mem=SHARED_BYTES,
    )
    return out
