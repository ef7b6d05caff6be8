import torch

THREADS = 512
MAX_VECTOR = 8

SOURCE = r"""
typedef unsigned short u16;

struct alignas(VECTOR * 2) pack {
  u16 lane[VECTOR];
};

__device__ __forceinline__ float widen(u16 v) { return __uint_as_float(static_cast<unsigned>(v) << 16); }
__device__ __forceinline__ u16 narrow(float v) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

__device__ __forceinline__ void merge(float& peak, float& total, float other_peak, float other_total) {
  const float top = fmaxf(peak, other_peak);
  total = total * __expf(peak - top) + other_total * __expf(other_peak - top);
  peak = top;
}

extern "C" __global__ void __launch_bounds__(THREADS)
cross_entropy_block(const u16* logits, const long long* targets, const float* grad_output, float* losses, u16* grad,
                    int n) {
  __shared__ float peaks[THREADS / 32];
  __shared__ float totals[THREADS / 32];
  const int row = blockIdx.x;
  const long long base = static_cast<long long>(row) * n;
  const pack* x = reinterpret_cast<const pack*>(logits + base);
  pack* g = reinterpret_cast<pack*>(grad + base);
  const int packs = n / VECTOR;
  float peak = -1.0e30f;
  float total = 0.0f;
  for (int i = threadIdx.x; i < packs; i += THREADS) {
    const pack p = x[i];
    float top = peak;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) top = fmaxf(top, widen(p.lane[j]));
    total *= __expf(peak - top);
    peak = top;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) total += __expf(widen(p.lane[j]) - peak);
  }
  for (int d = 16; d > 0; d >>= 1) {
    const float other_peak = __shfl_xor_sync(0xffffffffu, peak, d);
    const float other_total = __shfl_xor_sync(0xffffffffu, total, d);
    merge(peak, total, other_peak, other_total);
  }
  if ((threadIdx.x & 31) == 0) {
    peaks[threadIdx.x >> 5] = peak;
    totals[threadIdx.x >> 5] = total;
  }
  __syncthreads();
  peak = peaks[0];
  total = totals[0];
  for (int i = 1; i < THREADS / 32; ++i) merge(peak, total, peaks[i], totals[i]);
  const int target = static_cast<int>(targets[row]);
  const float go = grad_output[row];
  if (threadIdx.x == 0) losses[row] = logf(total) + (peak - widen(logits[base + target]));
  const float inverse = 1.0f / total;
  for (int i = threadIdx.x; i < packs; i += THREADS) {
    pack p = x[i];
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) {
      float v = __expf(widen(p.lane[j]) - peak) * inverse;
      if (i * VECTOR + j == target) v -= 1.0f;
      p.lane[j] = narrow(v * go);
    }
    g[i] = p;
  }
}
"""

kernels = {}


def compiled(vector):
    if vector not in kernels:
        defines = f"#define THREADS {THREADS}\n#define VECTOR {vector}\n"
        kernels[vector] = torch.cuda._compile_kernel(defines + SOURCE, "cross_entropy_block")
    return kernels[vector]


def custom_kernel(data):
    logits, targets, grad_output = data
    rows, n = logits.shape
    losses = torch.empty_like(grad_output)
    grad = torch.empty_like(logits)
    kernel = compiled(MAX_VECTOR if n % MAX_VECTOR == 0 else 1)
    kernel(grid=(rows, 1, 1), block=(THREADS, 1, 1), args=[logits, targets, grad_output, losses, grad, n])
    return losses, grad
