import torch

WARPS = 8
KEPT = 8

SOURCE = r"""
typedef unsigned short u16;

#if ELEMENT == 0
typedef float element;
__device__ __forceinline__ float widen(element v) { return v; }
__device__ __forceinline__ element narrow(float v) { return v; }
#else
typedef u16 element;
__device__ __forceinline__ float widen(element v) { return __uint_as_float(static_cast<unsigned>(v) << 16); }
__device__ __forceinline__ element narrow(float v) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
#endif

struct alignas(VECTOR * sizeof(element)) pack {
  element lane[VECTOR];
};

__device__ __forceinline__ void merge(float& peak, float& total, float other_peak, float other_total) {
  const float top = fmaxf(peak, other_peak);
  total = total * __expf(peak - top) + other_total * __expf(other_peak - top);
  peak = top;
}

__device__ __forceinline__ void absorb(const pack& p, float& peak, float& total) {
  float top = peak;
#pragma unroll
  for (int j = 0; j < VECTOR; ++j) top = fmaxf(top, widen(p.lane[j]));
  total *= __expf(peak - top);
  peak = top;
#pragma unroll
  for (int j = 0; j < VECTOR; ++j) total += __expf(widen(p.lane[j]) - peak);
}

__device__ __forceinline__ pack scaled(pack p, float peak, float inverse) {
#pragma unroll
  for (int j = 0; j < VECTOR; ++j) p.lane[j] = narrow(__expf(widen(p.lane[j]) - peak) * inverse);
  return p;
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
softmax_warp(const pack* x, pack* out, int rows, int packs) {
  const int row = blockIdx.x * WARPS + (threadIdx.x >> 5);
  const int lane = threadIdx.x & 31;
  if (row >= rows) return;
  const pack* x_row = x + static_cast<long long>(row) * packs;
  pack* out_row = out + static_cast<long long>(row) * packs;
  pack kept[KEPT];
  float peak = -1.0e30f;
  float total = 0.0f;
#pragma unroll
  for (int k = 0; k < KEPT; ++k) {
    if (lane + 32 * k < packs) kept[k] = x_row[lane + 32 * k];
  }
#pragma unroll
  for (int k = 0; k < KEPT; ++k) {
    if (lane + 32 * k < packs) absorb(kept[k], peak, total);
  }
  for (int i = lane + 32 * KEPT; i < packs; i += 32) absorb(x_row[i], peak, total);
#pragma unroll
  for (int d = 16; d > 0; d >>= 1) {
    const float other_peak = __shfl_xor_sync(0xffffffffu, peak, d);
    const float other_total = __shfl_xor_sync(0xffffffffu, total, d);
    merge(peak, total, other_peak, other_total);
  }
  const float inverse = 1.0f / total;
#pragma unroll
  for (int k = 0; k < KEPT; ++k) {
    if (lane + 32 * k < packs) out_row[lane + 32 * k] = scaled(kept[k], peak, inverse);
  }
  for (int i = lane + 32 * KEPT; i < packs; i += 32) out_row[i] = scaled(x_row[i], peak, inverse);
}
"""

ELEMENT = {torch.float32: 0, torch.bfloat16: 1}
kernels = {}


def compiled(dtype, vector):
    key = dtype, vector
    if key not in kernels:
        constants = {"WARPS": WARPS, "KEPT": KEPT, "VECTOR": vector, "ELEMENT": ELEMENT[dtype]}
        defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
        kernels[key] = torch.cuda._compile_kernel(defines + SOURCE, "softmax_warp")
    return kernels[key]


def custom_kernel(data):
    (x,) = data
    rows, n = x.shape
    out = torch.empty_like(x)
    widest = 16 // x.element_size()
    vector = widest if n % widest == 0 else 1
    grid = ((rows + WARPS - 1) // WARPS, 1, 1)
    compiled(x.dtype, vector)(grid=grid, block=(WARPS * 32, 1, 1), args=[x, out, rows, n // vector])
    return out
