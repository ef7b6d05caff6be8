"""H09: CUDA C++ through NVRTC, one block a row, which keeps its row in as much shared memory as the shape asks for."""
import torch

SOURCE = r"""
#if ELEMENT == 0
typedef float element;
__device__ __forceinline__ float widen(element v) { return v; }
__device__ __forceinline__ element narrow(float v) { return v; }
#elif ELEMENT == 1
typedef unsigned short element;
__device__ __forceinline__ float widen(element v) { return __uint_as_float(static_cast<unsigned>(v) << 16); }
__device__ __forceinline__ element narrow(float v) {
  element bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
#else
typedef unsigned short element;
__device__ __forceinline__ float widen(element v) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v));
  return f;
}
__device__ __forceinline__ element narrow(float v) {
  element bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
#endif

extern "C" __global__ void rms_norm_row(const element* x, const element* weight, element* out, int n) {
  extern __shared__ float row[];  // n floats, and 32 for the warps
  float* partial = row + n;
  const long long base = static_cast<long long>(blockIdx.x) * n;
  float total = 0.0f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float v = widen(x[base + i]);
    row[i] = v;
    total = fmaf(v, v, total);
  }
  for (int d = 16; d > 0; d >>= 1) total += __shfl_xor_sync(0xffffffffu, total, d);
  if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = total;
  __syncthreads();
  if (threadIdx.x < 32) {
    float t = threadIdx.x < (blockDim.x >> 5) ? partial[threadIdx.x] : 0.0f;
    for (int d = 16; d > 0; d >>= 1) t += __shfl_xor_sync(0xffffffffu, t, d);
    if (threadIdx.x == 0) partial[0] = t;
  }
  __syncthreads();
  const float scale = rsqrtf(partial[0] / n + 1e-6f);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[base + i] = narrow(row[i] * scale * widen(weight[i]));
}
"""
THREADS = 512
MOST_BYTES = 99 << 10
ELEMENT = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
_kernels = {}


def _compiled(dtype):
    if dtype not in _kernels:
        kernel = torch.cuda._compile_kernel(f"#define ELEMENT {ELEMENT[dtype]}\n" + SOURCE, "rms_norm_row")
        kernel.set_shared_memory_config(MOST_BYTES)
        _kernels[dtype] = kernel
    return _kernels[dtype]


def custom_kernel(data):
    x, weight = data
    n = x.shape[-1]
    nbytes = 4 * (n + 32)
    if nbytes > MOST_BYTES:
        raise ValueError(f"a row of {n} elements does not fit in shared memory")
    out = torch.empty_like(x)
    _compiled(x.dtype)(grid=(x.numel() // n, 1, 1), block=(THREADS, 1, 1), args=[x, weight, out, n], shared_mem=nbytes)
    return out
