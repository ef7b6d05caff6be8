import torch

WARPS = 4
UNROLL = 4

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(WARPS * 32)
scan_warp(const float* x, float* out, int rows, int n) {
  const int row = blockIdx.x * WARPS + (threadIdx.x >> 5);
  const int lane = threadIdx.x & 31;
  if (row >= rows) return;
  const long long base = static_cast<long long>(row) * n;
  float carry = 0.0f;
  for (int start = 0; start < n; start += 32 * UNROLL) {
    float v[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int i = start + 32 * u + lane;
      v[u] = i < n ? x[base + i] : 0.0f;
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      for (int d = 1; d < 32; d <<= 1) {
        const float other = __shfl_up_sync(0xffffffffu, v[u], d);
        if (lane >= d) v[u] += other;
      }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      v[u] += carry;
      carry = __shfl_sync(0xffffffffu, v[u], 31);
      const int i = start + 32 * u + lane;
      if (i < n) out[base + i] = v[u];
    }
  }
}
"""

kernels = {}


def compiled():
    if "scan_warp" not in kernels:
        defines = f"#define WARPS {WARPS}\n#define UNROLL {UNROLL}\n"
        kernels["scan_warp"] = torch.cuda._compile_kernel(defines + SOURCE, "scan_warp")
    return kernels["scan_warp"]


def custom_kernel(data):
    (x,) = data
    rows, n = x.shape
    out = torch.empty_like(x)
    grid = ((rows + WARPS - 1) // WARPS, 1, 1)
    compiled()(grid=grid, block=(WARPS * 32, 1, 1), args=[x, out, rows, n])
    return out
