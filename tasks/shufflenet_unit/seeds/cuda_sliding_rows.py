import torch

THREADS = 128
ROWS = 7
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

__device__ __forceinline__ float3 read_row(const half_bits* plane, int row, int col, int H, int W, float2 norm) {
  float3 v = make_float3(0.0f, 0.0f, 0.0f);
  if (row >= 0 && row < H) {
    const half_bits* line = plane + row * W;
    if (col > 0) v.x = fmaxf(fmaf(widen(line[col - 1]), norm.x, norm.y), 0.0f);
    v.y = fmaxf(fmaf(widen(line[col]), norm.x, norm.y), 0.0f);
    if (col + 1 < W) v.z = fmaxf(fmaf(widen(line[col + 1]), norm.x, norm.y), 0.0f);
  }
  return v;
}

__device__ __forceinline__ float dot3(const float* f, float3 v, float acc) {
  return fmaf(f[2], v.z, fmaf(f[1], v.y, fmaf(f[0], v.x, acc)));
}

extern "C" __global__ void __launch_bounds__(THREADS)
depthwise(const half_bits* y, const half_bits* weight, const float* bn1, const float* bn2, half_bits* out, int planes,
          int M, int H, int W, int groups) {
  const int strips = (H + ROWS - 1) / ROWS;
  const long long thread = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
  if (thread >= static_cast<long long>(planes) * strips * W) return;
  const int col = static_cast<int>(thread % W);
  const int first = static_cast<int>(thread / W % strips) * ROWS;
  const int plane = static_cast<int>(thread / W / strips);
  const int m = plane % M;
  const int source = m % groups * (M / groups) + m / groups;
  const half_bits* from = y + static_cast<long long>(plane - m + source) * H * W;
  half_bits* to = out + static_cast<long long>(plane) * H * W;
  const float2 before = affine(bn1, source, M);
  const float2 after = affine(bn2, m, M);
  float filter[9];
#pragma unroll
  for (int i = 0; i < 9; ++i) filter[i] = widen(weight[m * 9 + i]);
  float3 above = read_row(from, first - 1, col, H, W, before);
  float3 here = read_row(from, first, col, H, W, before);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const int row = first + r;
    if (row >= H) return;
    const float3 below = read_row(from, row + 1, col, H, W, before);
    const float acc = dot3(filter + 6, below, dot3(filter + 3, here, dot3(filter, above, 0.0f)));
    to[row * W + col] = narrow(fmaf(acc, after.x, after.y));
    above = here;
    here = below;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
finish(const half_bits* y, const float* bn, const half_bits* x, half_bits* out, int C, int area) {
  const long long base = static_cast<long long>(blockIdx.x) * area;
  const float2 norm = affine(bn, blockIdx.x % C, C);
  const int first = blockIdx.y * THREADS * PER_THREAD + threadIdx.x;
#pragma unroll
  for (int j = 0; j < PER_THREAD; ++j) {
    const int i = first + j * THREADS;
    if (i < area) {
      const float v = fmaf(widen(y[base + i]), norm.x, norm.y) + widen(x[base + i]);
      out[base + i] = narrow(fmaxf(v, 0.0f));
    }
  }
}
"""

kernels = {}


def compiled(name):
    if name not in kernels:
        constants = {"THREADS": THREADS, "ROWS": ROWS, "PER_THREAD": PER_THREAD}
        defines = "".join(f"#define {key} {value}\n" for key, value in constants.items())
        kernels[name] = torch.cuda._compile_kernel(defines + SOURCE, name)
    return kernels[name]


def custom_kernel(data):
    x, w1, bn1, w_depth, bn2, w2, bn3 = data
    n, c, h, w = x.shape
    m = w1.shape[0]
    groups = c // w1.shape[1]
    y = torch.matmul(w1.view(groups, m // groups, -1), x.view(n, groups, -1, h * w))
    hidden = torch.empty((n, groups, m // groups, h * w), device=x.device, dtype=x.dtype)
    threads = n * m * ((h + ROWS - 1) // ROWS) * w
    grid = ((threads + THREADS - 1) // THREADS, 1, 1)
    arguments = [y, w_depth, bn1, bn2, hidden, n * m, m, h, w, groups]
    compiled("depthwise")(grid=grid, block=(THREADS, 1, 1), args=arguments)
    y = torch.matmul(w2.view(groups, c // groups, -1), hidden)
    out = torch.empty((n, c, h, w), device=x.device, dtype=x.dtype)
    span = THREADS * PER_THREAD
    grid = (n * c, (h * w + span - 1) // span, 1)
    compiled("finish")(grid=grid, block=(THREADS, 1, 1), args=[y, bn3, x, out, c, h * w])
    return out
