import torch

WARPS = 8
GELU_THREADS = 256
MAX_BLOCKS = 4096

SOURCE = r"""
typedef unsigned short u16;
typedef unsigned int u32;

struct alignas(16) pack {
  u16 lane[8];
};

__device__ __forceinline__ float widen(u16 v) { return __uint_as_float(static_cast<u32>(v) << 16); }

__device__ __forceinline__ u16 narrow(float v) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

__device__ __forceinline__ float warp_sum(float v) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
add_and_norm(const pack* x, const pack* delta, const pack* bias, const pack* weight, const pack* shift, pack* sum,
             pack* out, int rows, int packs, int has_delta) {
  const int row = blockIdx.x * WARPS + (threadIdx.x >> 5);
  const int lane = threadIdx.x & 31;
  if (row >= rows) return;
  const long long base = static_cast<long long>(row) * packs;
  float total = 0.0f;
  for (int i = lane; i < packs; i += 32) {
    pack p = x[base + i];
    if (has_delta) {
      const pack d = delta[base + i];
      const pack b = bias[i];
#pragma unroll
      for (int j = 0; j < 8; ++j) p.lane[j] = narrow(widen(p.lane[j]) + widen(d.lane[j]) + widen(b.lane[j]));
      sum[base + i] = p;
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) total += widen(p.lane[j]);
  }
  const pack* from = has_delta ? sum : x;
  const float mean = warp_sum(total) / (packs * 8);
  float squares = 0.0f;
  for (int i = lane; i < packs; i += 32) {
    const pack p = from[base + i];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float centred = widen(p.lane[j]) - mean;
      squares = fmaf(centred, centred, squares);
    }
  }
  const float scale = rsqrtf(warp_sum(squares) / (packs * 8) + 1e-5f);
  for (int i = lane; i < packs; i += 32) {
    pack p = from[base + i];
    const pack w = weight[i];
    const pack s = shift[i];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      p.lane[j] = narrow((widen(p.lane[j]) - mean) * scale * widen(w.lane[j]) + widen(s.lane[j]));
    }
    out[base + i] = p;
  }
}
"""

GELU_SOURCE = r"""
typedef unsigned short u16;
typedef unsigned int u32;

struct alignas(16) pack {
  u16 lane[8];
};

__device__ __forceinline__ float widen(u16 v) { return __uint_as_float(static_cast<u32>(v) << 16); }

__device__ __forceinline__ u16 narrow(float v) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

extern "C" __global__ void __launch_bounds__(GELU_THREADS)
bias_gelu(pack* h, const pack* bias, int packs, int packs_per_row) {
  for (int i = blockIdx.x * GELU_THREADS + threadIdx.x; i < packs; i += gridDim.x * GELU_THREADS) {
    pack p = h[i];
    const pack b = bias[i % packs_per_row];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float z = widen(p.lane[j]) + widen(b.lane[j]);
      p.lane[j] = narrow(z / (1.0f + __expf(-1.5957691216057308f * (z + 0.044715f * z * z * z))));
    }
    h[i] = p;
  }
}
"""

kernels = []


def compiled():
    if not kernels:
        kernels.append(torch.cuda._compile_kernel(f"#define WARPS {WARPS}\n" + SOURCE, "add_and_norm"))
        defines = f"#define GELU_THREADS {GELU_THREADS}\n"
        kernels.append(torch.cuda._compile_kernel(defines + GELU_SOURCE, "bias_gelu"))
    return kernels


def custom_kernel(data):
    x, n1_w, n1_b, w_qkv, b_qkv, w_proj, b_proj, n2_w, n2_b, w_up, b_up, w_down, b_down = data
    batch, length, width = x.shape
    heads, dim = b_qkv.shape[1:]
    tokens = batch * length
    norm, gelu = compiled()
    grid = ((tokens + WARPS - 1) // WARPS, 1, 1)
    block = (WARPS * 32, 1, 1)
    h = torch.empty_like(x)
    norm(grid=grid, block=block, args=[x, x, n1_b, n1_w, n1_b, h, h, tokens, width // 8, 0])
    qkv = torch.nn.functional.linear(h, w_qkv.view(-1, width), b_qkv.view(-1))
    q, k, v = qkv.view(batch, length, 3, heads, dim).permute(2, 0, 3, 1, 4).unbind(0)
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    delta = torch.nn.functional.linear(y.transpose(1, 2).reshape(x.shape), w_proj)
    x1 = torch.empty_like(x)
    norm(grid=grid, block=block, args=[x, delta, b_proj, n2_w, n2_b, x1, h, tokens, width // 8, 1])
    up = torch.nn.functional.linear(h, w_up)
    packs = up.numel() // 8
    blocks = min(MAX_BLOCKS, (packs + GELU_THREADS - 1) // GELU_THREADS)
    gelu(grid=(blocks, 1, 1), block=(GELU_THREADS, 1, 1), args=[up, b_up, packs, width // 2])
    return torch.addmm(b_down, up.view(tokens, -1), w_down.t()).view(x.shape).add_(x1)
