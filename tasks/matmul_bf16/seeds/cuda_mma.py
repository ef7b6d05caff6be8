import torch

BLOCK_M = 128
BLOCK_N = 128
BLOCK_K = 32
WARPS_M = 2
WARPS_N = 4
PAD = 8

SOURCE = r"""
typedef unsigned short u16;
typedef unsigned int u32;
#define THREADS (WARPS_M * WARPS_N * 32)
#define WARP_M (BLOCK_M / WARPS_M)
#define WARP_N (BLOCK_N / WARPS_N)
#define STRIDE (BLOCK_K + PAD)
#define A_PACKS (BLOCK_M * BLOCK_K / 8 / THREADS)
#define B_PACKS (BLOCK_K * BLOCK_N / 8 / THREADS)

struct alignas(16) pack {
  u16 lane[8];
};

__device__ __forceinline__ u16 narrow(float v) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

__device__ __forceinline__ void multiply_add(float* c, const u32* a, const u32* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ pack fetch(const u16* base, int row, int col, int rows, int cols) {
  pack p;
  const u16* from = base + static_cast<long long>(row) * cols + col;
  if (ALIGNED && row < rows && col < cols) return *reinterpret_cast<const pack*>(from);
#pragma unroll
  for (int i = 0; i < 8; ++i) p.lane[i] = row < rows && col + i < cols ? from[i] : static_cast<u16>(0);
  return p;
}

__device__ __forceinline__ u32 pair(const u16* p) { return *reinterpret_cast<const u32*>(p); }

extern "C" __global__ void __launch_bounds__(THREADS)
matmul_mma(const u16* a, const u16* b, u16* out, int m, int n, int k) {
  __shared__ __align__(16) u16 a_tile[BLOCK_M * STRIDE];
  __shared__ __align__(16) u16 b_tile[BLOCK_N * STRIDE];
  const int first_row = blockIdx.y * BLOCK_M;
  const int first_col = blockIdx.x * BLOCK_N;
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int warp_row = warp / WARPS_N * WARP_M;
  const int warp_col = warp % WARPS_N * WARP_N;
  const int quad = lane >> 2;
  const int spot = (lane & 3) * 2;
  float total[WARP_M / 16][WARP_N / 8][4] = {};
  pack a_next[A_PACKS], b_next[B_PACKS];

#pragma unroll
  for (int i = 0; i < A_PACKS; ++i) {
    const int p = threadIdx.x + i * THREADS;
    a_next[i] = fetch(a, first_row + p / (BLOCK_K / 8), p % (BLOCK_K / 8) * 8, m, k);
  }
#pragma unroll
  for (int i = 0; i < B_PACKS; ++i) {
    const int p = threadIdx.x + i * THREADS;
    b_next[i] = fetch(b, p / (BLOCK_N / 8), first_col + p % (BLOCK_N / 8) * 8, k, n);
  }
  for (int start = 0; start < k; start += BLOCK_K) {
#pragma unroll
    for (int i = 0; i < A_PACKS; ++i) {
      const int p = threadIdx.x + i * THREADS;
      *reinterpret_cast<pack*>(a_tile + p / (BLOCK_K / 8) * STRIDE + p % (BLOCK_K / 8) * 8) = a_next[i];
    }
#pragma unroll
    for (int i = 0; i < B_PACKS; ++i) {
      const int p = threadIdx.x + i * THREADS;
#pragma unroll
      for (int j = 0; j < 8; ++j) b_tile[(p % (BLOCK_N / 8) * 8 + j) * STRIDE + p / (BLOCK_N / 8)] = b_next[i].lane[j];
    }
    __syncthreads();
    if (start + BLOCK_K < k) {
#pragma unroll
      for (int i = 0; i < A_PACKS; ++i) {
        const int p = threadIdx.x + i * THREADS;
        a_next[i] = fetch(a, first_row + p / (BLOCK_K / 8), start + BLOCK_K + p % (BLOCK_K / 8) * 8, m, k);
      }
#pragma unroll
      for (int i = 0; i < B_PACKS; ++i) {
        const int p = threadIdx.x + i * THREADS;
        b_next[i] = fetch(b, start + BLOCK_K + p / (BLOCK_N / 8), first_col + p % (BLOCK_N / 8) * 8, k, n);
      }
    }
#pragma unroll
    for (int depth = 0; depth < BLOCK_K; depth += 16) {
      u32 a_part[WARP_M / 16][4], b_part[WARP_N / 8][2];
#pragma unroll
      for (int i = 0; i < WARP_M / 16; ++i) {
        const u16* from = a_tile + (warp_row + i * 16 + quad) * STRIDE + depth + spot;
        a_part[i][0] = pair(from);
        a_part[i][1] = pair(from + 8 * STRIDE);
        a_part[i][2] = pair(from + 8);
        a_part[i][3] = pair(from + 8 * STRIDE + 8);
      }
#pragma unroll
      for (int j = 0; j < WARP_N / 8; ++j) {
        const u16* from = b_tile + (warp_col + j * 8 + quad) * STRIDE + depth + spot;
        b_part[j][0] = pair(from);
        b_part[j][1] = pair(from + 8);
      }
#pragma unroll
      for (int i = 0; i < WARP_M / 16; ++i)
#pragma unroll
        for (int j = 0; j < WARP_N / 8; ++j) multiply_add(total[i][j], a_part[i], b_part[j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < WARP_M / 16; ++i)
#pragma unroll
    for (int j = 0; j < WARP_N / 8; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int row = first_row + warp_row + i * 16 + quad + c / 2 * 8;
        const int col = first_col + warp_col + j * 8 + spot + c % 2;
        if (row < m && col < n) out[static_cast<long long>(row) * n + col] = narrow(total[i][j][c]);
      }
}
"""

kernels = {}


def compiled(aligned):
    if aligned not in kernels:
        constants = {
            "BLOCK_M": BLOCK_M,
            "BLOCK_N": BLOCK_N,
            "BLOCK_K": BLOCK_K,
            "WARPS_M": WARPS_M,
            "WARPS_N": WARPS_N,
            "PAD": PAD,
            "ALIGNED": int(aligned),
        }
        defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
        kernels[aligned] = torch.cuda._compile_kernel(defines + SOURCE, "matmul_mma")
    return kernels[aligned]


def custom_kernel(data):
    a, b = data
    m, k = a.shape
    n = b.shape[1]
    out = torch.empty((m, n), device=a.device, dtype=a.dtype)
    grid = ((n + BLOCK_N - 1) // BLOCK_N, (m + BLOCK_M - 1) // BLOCK_M, 1)
    threads = WARPS_M * WARPS_N * 32
    compiled(k % 8 == 0 and n % 8 == 0)(grid=grid, block=(threads, 1, 1), args=[a, b, out, m, n, k])
    return out
