import torch

WARPS = 16
ROWS = 4

SOURCE = r"""
typedef unsigned short u16;
typedef unsigned int u32;

__device__ __forceinline__ float widen(u16 v) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v));
  return f;
}

__device__ __forceinline__ u16 narrow(float v) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

struct alignas(16) pack {
  u16 lane[8];
};

extern "C" __global__ void __launch_bounds__(WARPS * 32)
column_products(const u16* x, const u32* packed, const u16* scales, const unsigned char* zeros, u16* out, int m, int n,
                int k, int words_per_group) {
  __shared__ float sums[WARPS][ROWS][32];
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const int col = blockIdx.x * 32 + lane;
  const int first_row = blockIdx.y * ROWS;
  const int words = k / 8;
  float total[ROWS] = {};
  if (col < n) {
    for (int word = warp; word < words; word += WARPS) {
      const u32 codes = packed[static_cast<long long>(word) * n + col];
      const int at = word / words_per_group * n + col;
      const float scale = widen(scales[at]);
      const int zero = zeros[at];
      float w[8];
#pragma unroll
      for (int place = 0; place < 8; ++place) {
        w[place] = static_cast<float>(static_cast<int>(codes >> (4 * place) & 15u) - zero) * scale;
      }
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        if (first_row + r < m) {
          const pack p = *reinterpret_cast<const pack*>(x + static_cast<long long>(first_row + r) * k + word * 8);
#pragma unroll
          for (int place = 0; place < 8; ++place) total[r] = fmaf(widen(p.lane[place]), w[place], total[r]);
        }
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) sums[warp][r][lane] = total[r];
  __syncthreads();
  for (int i = threadIdx.x; i < ROWS * 32; i += WARPS * 32) {
    const int r = i / 32;
    const int c = blockIdx.x * 32 + i % 32;
    float sum = 0.0f;
    for (int w = 0; w < WARPS; ++w) sum += sums[w][r][i % 32];
    if (first_row + r < m && c < n) out[static_cast<long long>(first_row + r) * n + c] = narrow(sum);
  }
}
"""

kernels = []


def compiled():
    if not kernels:
        defines = f"#define WARPS {WARPS}\n#define ROWS {ROWS}\n"
        kernels.append(torch.cuda._compile_kernel(defines + SOURCE, "column_products"))
    return kernels[0]


def custom_kernel(data):
    x, packed, scales, zeros = data
    m, k = x.shape
    words, n = packed.shape
    out = torch.empty((m, n), device=x.device, dtype=x.dtype)
    grid = ((n + 31) // 32, (m + ROWS - 1) // ROWS, 1)
    args = [x, packed, scales, zeros, out, m, n, k, words // scales.shape[0]]
    compiled()(grid=grid, block=(WARPS * 32, 1, 1), args=args)
    return out
