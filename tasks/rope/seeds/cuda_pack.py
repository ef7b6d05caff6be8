import torch

THREADS = 256
MAX_VECTOR = 8

SOURCE = r"""
typedef unsigned short u16;

struct alignas(VECTOR * 2) pack {
  u16 lane[VECTOR];
};
struct alignas(VECTOR % 4 == 0 ? 16 : 4) angles {
  float lane[VECTOR];
};

__device__ __forceinline__ float widen(u16 v) { return __uint_as_float(static_cast<unsigned>(v) << 16); }
__device__ __forceinline__ u16 narrow(float v) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

extern "C" __global__ void __launch_bounds__(THREADS)
rotate_packs(const pack* q, const pack* k, const angles* cos_table, const angles* sin_table, pack* q_out, pack* k_out,
             int q_packs, int k_packs, int length, int q_heads, int k_heads, int half_packs) {
  int i = blockIdx.x * THREADS + threadIdx.x;
  const pack* x = q;
  pack* out = q_out;
  int heads = q_heads;
  if (i >= q_packs) {
    i -= q_packs;
    if (i >= k_packs) return;
    x = k;
    out = k_out;
    heads = k_heads;
  }
  const int row = i / half_packs;
  const int col = i - row * half_packs;
  const int position = row / heads % length;
  const angles c = cos_table[position * half_packs + col];
  const angles s = sin_table[position * half_packs + col];
  const long long at = static_cast<long long>(row) * 2 * half_packs + col;
  pack first = x[at];
  pack second = x[at + half_packs];
#pragma unroll
  for (int j = 0; j < VECTOR; ++j) {
    const float a = widen(first.lane[j]);
    const float b = widen(second.lane[j]);
    first.lane[j] = narrow(a * c.lane[j] - b * s.lane[j]);
    second.lane[j] = narrow(b * c.lane[j] + a * s.lane[j]);
  }
  out[at] = first;
  out[at + half_packs] = second;
}
"""

kernels = {}


def compiled(vector):
    if vector not in kernels:
        defines = f"#define THREADS {THREADS}\n#define VECTOR {vector}\n"
        kernels[vector] = torch.cuda._compile_kernel(defines + SOURCE, "rotate_packs")
    return kernels[vector]


def custom_kernel(data):
    q, k, cos, sin = data
    half = cos.shape[1]
    vector = MAX_VECTOR if half % MAX_VECTOR == 0 else 1
    q_out = torch.empty_like(q)
    k_out = torch.empty_like(k)
    q_packs = q.numel() // (2 * vector)
    k_packs = k.numel() // (2 * vector)
    grid = ((q_packs + k_packs + THREADS - 1) // THREADS, 1, 1)
    compiled(vector)(
        grid=grid,
        block=(THREADS, 1, 1),
        args=[
            q,
            k,
            cos,
            sin,
            q_out,
            k_out,
            q_packs,
            k_packs,
            q.shape[1],
            q.shape[2],
            k.shape[2],
            half // vector,
        ],
    )
    return q_out, k_out
