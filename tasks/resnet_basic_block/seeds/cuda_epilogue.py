import torch
import torch.nn.functional as F

THREADS = 256
PER_THREAD = 4

SOURCE = r"""
typedef unsigned short half_bits;

__device__ __forceinline__ float widen(half_bits v) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v));
  return f;
}

__device__ __forceinline__ half_bits narrow(float v) {
  half_bits bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

__device__ __forceinline__ float2 affine(const float* bn, int k, int K) {
  const float scale = bn[k] * rsqrtf(bn[3 * K + k] + 1e-5f);
  return make_float2(scale, bn[K + k] - bn[2 * K + k] * scale);
}

extern "C" __global__ void __launch_bounds__(THREADS)
finish(const half_bits* y, const float* bn, const half_bits* shortcut, const float* bn_shortcut, half_bits* out,
       int mode, int K, int area) {
  const int k = blockIdx.x % K;
  const long long base = static_cast<long long>(blockIdx.x) * area;
  const float2 own = affine(bn, k, K);
  const float2 other = mode == 2 ? affine(bn_shortcut, k, K) : make_float2(1.0f, 0.0f);
  const int first = blockIdx.y * THREADS * PER_THREAD + threadIdx.x;
#pragma unroll
  for (int j = 0; j < PER_THREAD; ++j) {
    const int i = first + j * THREADS;
    if (i < area) {
      float v = fmaf(widen(y[base + i]), own.x, own.y);
      if (mode > 0) v += fmaf(widen(shortcut[base + i]), other.x, other.y);
      out[base + i] = narrow(fmaxf(v, 0.0f));
    }
  }
}
"""

kernels = []


def finish(y, bn, shortcut, bn_shortcut, mode):
    if not kernels:
        defines = f"#define THREADS {THREADS}\n#define PER_THREAD {PER_THREAD}\n"
        kernels.append(torch.cuda._compile_kernel(defines + SOURCE, "finish"))
    n, k, h, w = y.shape
    out = torch.empty((n, k, h, w), device=y.device, dtype=y.dtype)
    span = THREADS * PER_THREAD
    grid = (n * k, (h * w + span - 1) // span, 1)
    kernels[0](grid=grid, block=(THREADS, 1, 1), args=[y, bn, shortcut, bn_shortcut, out, mode, k, h * w])
    return out


def custom_kernel(data):
    x, w1, bn1, w2, bn2 = data[:5]
    down = len(data) > 5
    y = F.conv2d(x, w1, stride=2 if down else 1, padding=1).contiguous()
    y = finish(y, bn1, y, bn1, 0)
    y = F.conv2d(y, w2, padding=1).contiguous()
    if not down:
        return finish(y, bn2, x, bn2, 1)
    return finish(y, bn2, F.conv2d(x, data[5], stride=2).contiguous(), data[6], 2)
