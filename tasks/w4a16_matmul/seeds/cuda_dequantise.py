import torch

THREADS = 256
COLUMNS = 4

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

struct alignas(4 * COLUMNS) word_pack {
  u32 lane[COLUMNS];
};

struct alignas(2 * COLUMNS) half_pack {
  u16 lane[COLUMNS];
};

extern "C" __global__ void __launch_bounds__(THREADS)
widen_weight(const u32* packed, const u16* scales, const unsigned char* zeros, u16* weight, int n, int words,
             int words_per_group) {
  const int packs = n / COLUMNS;
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= packs * words) return;
  const int word = i / packs;
  const int col = i % packs * COLUMNS;
  const int at = word / words_per_group * n + col;
  const word_pack codes = *reinterpret_cast<const word_pack*>(packed + static_cast<long long>(word) * n + col);
  const half_pack s = *reinterpret_cast<const half_pack*>(scales + at);
  float scale[COLUMNS];
  int zero[COLUMNS];
#pragma unroll
  for (int c = 0; c < COLUMNS; ++c) {
    scale[c] = widen(s.lane[c]);
    zero[c] = zeros[at + c];
  }
#pragma unroll
  for (int place = 0; place < 8; ++place) {
    half_pack w;
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      const int code = static_cast<int>(codes.lane[c] >> (4 * place) & 15u);
      w.lane[c] = narrow(static_cast<float>(code - zero[c]) * scale[c]);
    }
    *reinterpret_cast<half_pack*>(weight + (static_cast<long long>(word) * 8 + place) * n + col) = w;
  }
}
"""

kernels = []


def compiled():
    if not kernels:
        defines = f"#define THREADS {THREADS}\n#define COLUMNS {COLUMNS}\n"
        kernels.append(torch.cuda._compile_kernel(defines + SOURCE, "widen_weight"))
    return kernels[0]


def custom_kernel(data):
    x, packed, scales, zeros = data
    words, n = packed.shape
    weight = torch.empty((x.shape[1], n), device=x.device, dtype=x.dtype)
    blocks = (words * (n // COLUMNS) + THREADS - 1) // THREADS
    compiled()(
        grid=(blocks, 1, 1),
        block=(THREADS, 1, 1),
        args=[packed, scales, zeros, weight, n, words, words // scales.shape[0]],
    )
    return torch.mm(x, weight)
