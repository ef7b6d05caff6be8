import torch

WARPS = 4
TEAM = 8
SPLITS = 16

SOURCE = r"""
typedef unsigned short u16;
#define THREADS (WARPS * 32)
#define TEAMS (THREADS / TEAM)
#define PACKS (DIM / 8 / TEAM)
#define OWN (DIM / TEAM)

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
decode_split(const u16* q, const u16* k, const u16* v, const int* lengths, float* part, float* stat, int cache_length,
             int kv_heads) {
  __shared__ float own_q[GROUP * DIM];
  __shared__ float sums[WARPS][GROUP * DIM];
  __shared__ float peaks[WARPS][GROUP];
  __shared__ float totals[WARPS][GROUP];
  const int split = blockIdx.x;
  const int pair = blockIdx.y;
  const int sequence = pair / kv_heads;
  const int length = lengths[sequence];
  const int share = (length + SPLITS - 1) / SPLITS;
  const int last = min((split + 1) * share, length);
  const int stride = kv_heads * DIM;
  const long long base = static_cast<long long>(sequence) * cache_length * stride + pair % kv_heads * DIM;
  const int warp = threadIdx.x >> 5;
  const int member = threadIdx.x % TEAM;
  const float scale = rsqrtf(static_cast<float>(DIM)) * 1.4426950408889634f;
  for (int i = threadIdx.x; i < GROUP * DIM; i += THREADS) own_q[i] = widen(q[pair * GROUP * DIM + i]) * scale;
  __syncthreads();
  float peak[GROUP], total[GROUP], out[GROUP][OWN];
#pragma unroll
  for (int g = 0; g < GROUP; ++g) {
    peak[g] = -1e30f;
    total[g] = 0.0f;
#pragma unroll
    for (int i = 0; i < OWN; ++i) out[g][i] = 0.0f;
  }
  const int rounds = (share + TEAMS - 1) / TEAMS;
  for (int round = 0; round < rounds; ++round) {
    const int key = split * share + round * TEAMS + threadIdx.x / TEAM;
    const bool used = key < last;
    float keys[OWN], values[OWN];
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
      pack k_pack = {}, v_pack = {};
      if (used) {
        const long long at = base + static_cast<long long>(key) * stride + (p * TEAM + member) * 8;
        k_pack = *reinterpret_cast<const pack*>(k + at);
        v_pack = *reinterpret_cast<const pack*>(v + at);
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        keys[p * 8 + j] = widen(k_pack.lane[j]);
        values[p * 8 + j] = widen(v_pack.lane[j]);
      }
    }
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      float score = 0.0f;
#pragma unroll
      for (int p = 0; p < PACKS; ++p)
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          score = fmaf(keys[p * 8 + j], own_q[g * DIM + (p * TEAM + member) * 8 + j], score);
        }
#pragma unroll
      for (int d = TEAM / 2; d > 0; d >>= 1) score += __shfl_xor_sync(0xffffffffu, score, d);
      const float new_peak = used ? fmaxf(peak[g], score) : peak[g];
      const float weight = used ? exp2f(score - new_peak) : 0.0f;
      const float shrink = exp2f(peak[g] - new_peak);
      total[g] = total[g] * shrink + weight;
      peak[g] = new_peak;
#pragma unroll
      for (int i = 0; i < OWN; ++i) out[g][i] = fmaf(out[g][i], shrink, weight * values[i]);
    }
  }
#pragma unroll
  for (int g = 0; g < GROUP; ++g) {
    float top = peak[g];
#pragma unroll
    for (int d = TEAM; d < 32; d <<= 1) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
    const float shrink = exp2f(peak[g] - top);
    float all = total[g] * shrink;
#pragma unroll
    for (int d = TEAM; d < 32; d <<= 1) all += __shfl_xor_sync(0xffffffffu, all, d);
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      float sum = out[g][i] * shrink;
#pragma unroll
      for (int d = TEAM; d < 32; d <<= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
      if ((threadIdx.x & 31) < TEAM) sums[warp][g * DIM + (i / 8 * TEAM + member) * 8 + i % 8] = sum;
    }
    if ((threadIdx.x & 31) == 0) {
      peaks[warp][g] = top;
      totals[warp][g] = all;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < GROUP * DIM; i += THREADS) {
    const int g = i / DIM;
    float top = -1e30f;
    for (int w = 0; w < WARPS; ++w) top = fmaxf(top, peaks[w][g]);
    float sum = 0.0f, all = 0.0f;
    for (int w = 0; w < WARPS; ++w) {
      const float shrink = exp2f(peaks[w][g] - top);
      sum += sums[w][i] * shrink;
      all += totals[w][g] * shrink;
    }
    const long long slot = (static_cast<long long>(pair) * GROUP + g) * SPLITS + split;
    part[slot * DIM + i % DIM] = sum;
    if (i % DIM == 0) {
      stat[slot * 2] = top;
      stat[slot * 2 + 1] = all;
    }
  }
}
"""

MERGE_SOURCE = r"""
typedef unsigned short u16;

__device__ __forceinline__ u16 narrow(float v) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

extern "C" __global__ void __launch_bounds__(DIM)
merge_splits(const float* part, const float* stat, u16* out) {
  const long long first = static_cast<long long>(blockIdx.x) * SPLITS;
  float top = -1e30f;
  for (int s = 0; s < SPLITS; ++s) top = fmaxf(top, stat[(first + s) * 2]);
  float sum = 0.0f, all = 0.0f;
  for (int s = 0; s < SPLITS; ++s) {
    const float shrink = exp2f(stat[(first + s) * 2] - top);
    sum += part[(first + s) * DIM + threadIdx.x] * shrink;
    all += stat[(first + s) * 2 + 1] * shrink;
  }
  out[static_cast<long long>(blockIdx.x) * DIM + threadIdx.x] = narrow(sum / all);
}
"""

kernels = {}


def compiled(dim, group):
    key = dim, group
    if key not in kernels:
        constants = {"WARPS": WARPS, "TEAM": TEAM, "SPLITS": SPLITS, "DIM": dim, "GROUP": group}
        defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
        kernels[key] = (
            torch.cuda._compile_kernel(defines + SOURCE, "decode_split"),
            torch.cuda._compile_kernel(defines + MERGE_SOURCE, "merge_splits"),
        )
    return kernels[key]


def custom_kernel(data):
    q, k, v, lengths = data
    batch, cache_length, kv_heads, dim = k.shape
    heads = q.shape[1]
    part = torch.empty((batch * heads, SPLITS, dim), device=q.device, dtype=torch.float32)
    stat = torch.empty((batch * heads, SPLITS, 2), device=q.device, dtype=torch.float32)
    out = torch.empty_like(q)
    split, merge = compiled(dim, heads // kv_heads)
    split(
        grid=(SPLITS, batch * kv_heads, 1),
        block=(WARPS * 32, 1, 1),
        args=[q, k, v, lengths, part, stat, cache_length, kv_heads],
    )
    merge(grid=(batch * heads, 1, 1), block=(dim, 1, 1), args=[part, stat, out])
    return out
