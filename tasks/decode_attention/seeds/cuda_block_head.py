import torch

THREADS = 256
SMALL_SHARED_BYTES = 40 * 1024

SOURCE = r"""
typedef unsigned short u16;
#define WARPS (THREADS / 32)
#define SLICES (THREADS / DIM)

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

extern "C" __global__ void __launch_bounds__(THREADS)
decode_head(const u16* q, const u16* k, const u16* v, const int* lengths, u16* out, int cache_length, int heads,
            int kv_heads) {
  extern __shared__ float weights[];
  __shared__ float own_q[DIM];
  __shared__ float partial[WARPS];
  __shared__ float sums[SLICES][DIM];
  const int head = blockIdx.x;
  const int sequence = blockIdx.y;
  const int length = lengths[sequence];
  const int stride = kv_heads * DIM;
  const long long base =
      static_cast<long long>(sequence) * cache_length * stride + head / (heads / kv_heads) * DIM;
  const int row = sequence * heads + head;
  for (int i = threadIdx.x; i < DIM; i += THREADS) own_q[i] = widen(q[row * DIM + i]) * rsqrtf(static_cast<float>(DIM));
  __syncthreads();
  float peak = -1e30f;
  for (int key = threadIdx.x; key < length; key += THREADS) {
    const pack* from = reinterpret_cast<const pack*>(k + base + static_cast<long long>(key) * stride);
    float score = 0.0f;
#pragma unroll
    for (int i = 0; i < DIM / 8; ++i) {
      const pack p = from[i];
#pragma unroll
      for (int j = 0; j < 8; ++j) score = fmaf(widen(p.lane[j]), own_q[i * 8 + j], score);
    }
    weights[key] = score;
    peak = fmaxf(peak, score);
  }
  for (int d = 16; d > 0; d >>= 1) peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, d));
  if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = peak;
  __syncthreads();
  for (int i = 0; i < WARPS; ++i) peak = fmaxf(peak, partial[i]);
  __syncthreads();
  float total = 0.0f;
  for (int key = threadIdx.x; key < length; key += THREADS) {
    const float weight = __expf(weights[key] - peak);
    weights[key] = weight;
    total += weight;
  }
  for (int d = 16; d > 0; d >>= 1) total += __shfl_xor_sync(0xffffffffu, total, d);
  if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = total;
  __syncthreads();
  total = 0.0f;
  for (int i = 0; i < WARPS; ++i) total += partial[i];
  const int dim = threadIdx.x % DIM;
  const int slice = threadIdx.x / DIM;
  float sum = 0.0f;
  for (int key = slice; key < length; key += SLICES) {
    sum = fmaf(weights[key], widen(v[base + static_cast<long long>(key) * stride + dim]), sum);
  }
  sums[slice][dim] = sum;
  __syncthreads();
  if (slice == 0) {
    for (int i = 1; i < SLICES; ++i) sum += sums[i][dim];
    out[row * DIM + dim] = narrow(sum / total);
  }
}
"""

kernels = {}
configured = {}


def compiled(dim, shared_bytes):
    if dim not in kernels:
        defines = f"#define THREADS {THREADS}\n#define DIM {dim}\n"
        kernels[dim] = torch.cuda._compile_kernel(defines + SOURCE, "decode_head")
        configured[dim] = SMALL_SHARED_BYTES
    if shared_bytes > configured[dim]:
        configured[dim] = max(shared_bytes, 48 * 1024)
        kernels[dim].set_shared_memory_config(configured[dim])
    return kernels[dim]


def custom_kernel(data):
    q, k, v, lengths = data
    batch, cache_length, kv_heads, dim = k.shape
    heads = q.shape[1]
    out = torch.empty_like(q)
    shared_bytes = 4 * cache_length
    args = [q, k, v, lengths, out, cache_length, heads, kv_heads]
    kernel = compiled(dim, shared_bytes)
    kernel(grid=(heads, batch, 1), block=(THREADS, 1, 1), args=args, shared_mem=shared_bytes)
    return out
