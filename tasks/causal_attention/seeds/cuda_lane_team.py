import torch

QUERIES = 32
KEYS = 32
TEAM = 4

SOURCE = r"""
typedef unsigned short u16;
#define THREADS (QUERIES * TEAM)
#define OWN_QUADS (DIM / 4 / TEAM)

__device__ __forceinline__ float widen(u16 v) { return __uint_as_float(static_cast<unsigned>(v) << 16); }

__device__ __forceinline__ u16 narrow(float v) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

extern "C" __global__ void __launch_bounds__(THREADS)
attend_team(const u16* q, const u16* k, const u16* v, u16* out, int length) {
  __shared__ float4 k_tile[KEYS * DIM / 4];
  __shared__ float4 v_tile[KEYS * DIM / 4];
  const long long base = static_cast<long long>(blockIdx.y) * length * DIM;
  const int first = (gridDim.x - 1 - blockIdx.x) * QUERIES;
  const int row = first + threadIdx.x / TEAM;
  const int member = threadIdx.x % TEAM;
  const float scale = rsqrtf(static_cast<float>(DIM)) * 1.4426950408889634f;
  float4 own_q[OWN_QUADS], own_out[OWN_QUADS];
#pragma unroll
  for (int i = 0; i < OWN_QUADS; ++i) {
    const u16* from = q + base + static_cast<long long>(min(row, length - 1)) * DIM + (i * TEAM + member) * 4;
    own_q[i] = make_float4(widen(from[0]) * scale, widen(from[1]) * scale, widen(from[2]) * scale,
                           widen(from[3]) * scale);
    own_out[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  float peak = -1e30f;
  float total = 0.0f;
  const int end = min(first + QUERIES, length);
  for (int start = 0; start < end; start += KEYS) {
    __syncthreads();
    for (int i = threadIdx.x; i < KEYS * DIM / 4; i += THREADS) {
      const int col = min(start + i / (DIM / 4), length - 1);
      const long long at = base + static_cast<long long>(col) * DIM + i % (DIM / 4) * 4;
      k_tile[i] = make_float4(widen(k[at]), widen(k[at + 1]), widen(k[at + 2]), widen(k[at + 3]));
      v_tile[i] = make_float4(widen(v[at]), widen(v[at + 1]), widen(v[at + 2]), widen(v[at + 3]));
    }
    __syncthreads();
    for (int key = 0; key < KEYS; ++key) {
      float score = 0.0f;
#pragma unroll
      for (int i = 0; i < OWN_QUADS; ++i) {
        const float4 other = k_tile[key * (DIM / 4) + i * TEAM + member];
        score = fmaf(own_q[i].x, other.x, score);
        score = fmaf(own_q[i].y, other.y, score);
        score = fmaf(own_q[i].z, other.z, score);
        score = fmaf(own_q[i].w, other.w, score);
      }
#pragma unroll
      for (int d = TEAM / 2; d > 0; d >>= 1) score += __shfl_xor_sync(0xffffffffu, score, d);
      if (start + key > row) score = -1e30f;
      const float new_peak = fmaxf(peak, score);
      const float shrink = exp2f(peak - new_peak);
      const float weight = start + key > row ? 0.0f : exp2f(score - new_peak);
      total = total * shrink + weight;
      peak = new_peak;
#pragma unroll
      for (int i = 0; i < OWN_QUADS; ++i) {
        const float4 other = v_tile[key * (DIM / 4) + i * TEAM + member];
        own_out[i].x = fmaf(own_out[i].x, shrink, weight * other.x);
        own_out[i].y = fmaf(own_out[i].y, shrink, weight * other.y);
        own_out[i].z = fmaf(own_out[i].z, shrink, weight * other.z);
        own_out[i].w = fmaf(own_out[i].w, shrink, weight * other.w);
      }
    }
  }
  if (row >= length) return;
  const float inverse = 1.0f / total;
#pragma unroll
  for (int i = 0; i < OWN_QUADS; ++i) {
    u16* to = out + base + static_cast<long long>(row) * DIM + (i * TEAM + member) * 4;
    to[0] = narrow(own_out[i].x * inverse);
    to[1] = narrow(own_out[i].y * inverse);
    to[2] = narrow(own_out[i].z * inverse);
    to[3] = narrow(own_out[i].w * inverse);
  }
}
"""

kernels = {}


def compiled(dim):
    if dim not in kernels:
        constants = {"QUERIES": QUERIES, "KEYS": KEYS, "TEAM": TEAM, "DIM": dim}
        defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
        kernels[dim] = torch.cuda._compile_kernel(defines + SOURCE, "attend_team")
    return kernels[dim]


def custom_kernel(data):
    q, k, v = data
    batch, heads, length, dim = q.shape
    out = torch.empty_like(q)
    grid = ((length + QUERIES - 1) // QUERIES, batch * heads, 1)
    compiled(dim)(grid=grid, block=(QUERIES * TEAM, 1, 1), args=[q, k, v, out, length])
    return out
