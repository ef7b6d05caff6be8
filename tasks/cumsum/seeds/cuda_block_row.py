import torch

THREADS = 256

SOURCE = r"""
struct alignas(VECTOR * 4) pack {
  float lane[VECTOR];
};

extern "C" __global__ void __launch_bounds__(THREADS)
scan_block(const pack* x, pack* out, int packs) {
  __shared__ float totals[THREADS / 32];
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const pack* x_row = x + static_cast<long long>(blockIdx.x) * packs;
  pack* out_row = out + static_cast<long long>(blockIdx.x) * packs;
  float carry = 0.0f;
  for (int start = 0; start < packs; start += THREADS) {
    const int i = start + threadIdx.x;
    pack p;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) p.lane[j] = 0.0f;
    if (i < packs) p = x_row[i];
#pragma unroll
    for (int j = 1; j < VECTOR; ++j) p.lane[j] += p.lane[j - 1];
    const float own = p.lane[VECTOR - 1];
    float sum = own;
    for (int d = 1; d < 32; d <<= 1) {
      const float other = __shfl_up_sync(0xffffffffu, sum, d);
      if (lane >= d) sum += other;
    }
    __syncthreads();
    if (lane == 31) totals[warp] = sum;
    __syncthreads();
    float before = carry;
    for (int w = 0; w < THREADS / 32; ++w) {
      if (w < warp) before += totals[w];
      carry += totals[w];
    }
    before += sum - own;
#pragma unroll
    for (int j = 0; j < VECTOR; ++j) p.lane[j] += before;
    if (i < packs) out_row[i] = p;
  }
}
"""

kernels = {}


def compiled(vector):
    if vector not in kernels:
        defines = f"#define THREADS {THREADS}\n#define VECTOR {vector}\n"
        kernels[vector] = torch.cuda._compile_kernel(defines + SOURCE, "scan_block")
    return kernels[vector]


def custom_kernel(data):
    (x,) = data
    rows, n = x.shape
    out = torch.empty_like(x)
    vector = 4 if n % 4 == 0 else 1
    compiled(vector)(grid=(rows, 1, 1), block=(THREADS, 1, 1), args=[x, out, n // vector])
    return out
