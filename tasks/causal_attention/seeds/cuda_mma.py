import torch

WARPS = 4
KEYS = 64
PAD = 8

SOURCE = r"""
typedef unsigned short u16;
typedef unsigned int u32;
#define QUERIES (WARPS * 16)
#define THREADS (WARPS * 32)
#define K_STRIDE (DIM + PAD)
#define V_STRIDE (KEYS + PAD)
#define ROW_PACKS (DIM / 8)

struct alignas(16) pack {
  u16 lane[8];
};

__device__ __forceinline__ u32 narrow_pair(float low, float high) {
  u32 word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

__device__ __forceinline__ void multiply_add(float* c, const u32* a, const u32* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ u32 pair(const u16* p) { return *reinterpret_cast<const u32*>(p); }

extern "C" __global__ void __launch_bounds__(THREADS)
attend_mma(const u16* q, const u16* k, const u16* v, u16* out, int length) {
  __shared__ __align__(16) u16 k_tile[KEYS * K_STRIDE];
  __shared__ __align__(16) u16 v_tile[DIM * V_STRIDE];
  const long long base = static_cast<long long>(blockIdx.y) * length * DIM;
  const int first = (gridDim.x - 1 - blockIdx.x) * QUERIES;
  const int lane = threadIdx.x & 31;
  const int quad = lane >> 2;
  const int spot = (lane & 3) * 2;
  const int row = first + (threadIdx.x >> 5) * 16 + quad;
  const float scale = rsqrtf(static_cast<float>(DIM)) * 1.4426950408889634f;

  u32 q_part[DIM / 16][4];
#pragma unroll
  for (int d = 0; d < DIM / 16; ++d)
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int at_row = row + (r & 1) * 8;
      const u16* from = q + base + static_cast<long long>(at_row) * DIM + d * 16 + (r >> 1) * 8 + spot;
      q_part[d][r] = at_row < length ? pair(from) : 0u;
    }
  float total_out[DIM / 8][4] = {};
  float peak[2] = {-1e30f, -1e30f};
  float total[2] = {0.0f, 0.0f};
  const int end = min(first + QUERIES, length);
  for (int start = 0; start < end; start += KEYS) {
    __syncthreads();
    for (int p = threadIdx.x; p < KEYS * ROW_PACKS; p += THREADS) {
      const int key = p / ROW_PACKS;
      const int d = p % ROW_PACKS * 8;
      pack k_pack = {}, v_pack = {};
      if (start + key < length) {
        const long long at = base + static_cast<long long>(start + key) * DIM + d;
        k_pack = *reinterpret_cast<const pack*>(k + at);
        v_pack = *reinterpret_cast<const pack*>(v + at);
      }
      *reinterpret_cast<pack*>(k_tile + key * K_STRIDE + d) = k_pack;
#pragma unroll
      for (int j = 0; j < 8; ++j) v_tile[(d + j) * V_STRIDE + key] = v_pack.lane[j];
    }
    __syncthreads();
    float score[KEYS / 8][4] = {};
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n)
#pragma unroll
      for (int d = 0; d < DIM / 16; ++d) {
        const u16* from = k_tile + (n * 8 + quad) * K_STRIDE + d * 16 + spot;
        const u32 k_part[2] = {pair(from), pair(from + 8)};
        multiply_add(score[n], q_part[d], k_part);
      }
    float new_peak[2] = {peak[0], peak[1]};
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int col = start + n * 8 + spot + (c & 1);
        score[n][c] = col <= row + (c >> 1) * 8 ? score[n][c] * scale : -1e30f;
        new_peak[c >> 1] = fmaxf(new_peak[c >> 1], score[n][c]);
      }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      new_peak[r] = fmaxf(new_peak[r], __shfl_xor_sync(0xffffffffu, new_peak[r], 1));
      new_peak[r] = fmaxf(new_peak[r], __shfl_xor_sync(0xffffffffu, new_peak[r], 2));
      const float shrink = exp2f(peak[r] - new_peak[r]);
      peak[r] = new_peak[r];
      total[r] *= shrink;
#pragma unroll
      for (int d = 0; d < DIM / 8; ++d) {
        total_out[d][2 * r] *= shrink;
        total_out[d][2 * r + 1] *= shrink;
      }
    }
#pragma unroll
    for (int n = 0; n < KEYS / 8; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        score[n][c] = exp2f(score[n][c] - peak[c >> 1]);
        total[c >> 1] += score[n][c];
      }
#pragma unroll
    for (int n = 0; n < KEYS / 16; ++n) {
      const u32 w_part[4] = {narrow_pair(score[2 * n][0], score[2 * n][1]),
                             narrow_pair(score[2 * n][2], score[2 * n][3]),
                             narrow_pair(score[2 * n + 1][0], score[2 * n + 1][1]),
                             narrow_pair(score[2 * n + 1][2], score[2 * n + 1][3])};
#pragma unroll
      for (int d = 0; d < DIM / 8; ++d) {
        const u16* from = v_tile + (d * 8 + quad) * V_STRIDE + n * 16 + spot;
        const u32 v_part[2] = {pair(from), pair(from + 8)};
        multiply_add(total_out[d], w_part, v_part);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    total[r] += __shfl_xor_sync(0xffffffffu, total[r], 1);
    total[r] += __shfl_xor_sync(0xffffffffu, total[r], 2);
    const int at_row = row + r * 8;
    if (at_row < length) {
      u32* to = reinterpret_cast<u32*>(out + base + static_cast<long long>(at_row) * DIM + spot);
#pragma unroll
      for (int d = 0; d < DIM / 8; ++d) {
        to[d * 4] = narrow_pair(total_out[d][2 * r] / total[r], total_out[d][2 * r + 1] / total[r]);
      }
    }
  }
}
"""

kernels = {}


def compiled(dim):
    if dim not in kernels:
        constants = {"WARPS": WARPS, "KEYS": KEYS, "PAD": PAD, "DIM": dim}
        defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
        kernels[dim] = torch.cuda._compile_kernel(defines + SOURCE, "attend_mma")
    return kernels[dim]


def custom_kernel(data):
    q, k, v = data
    batch, heads, length, dim = q.shape
    out = torch.empty_like(q)
    queries = WARPS * 16
    grid = ((length + queries - 1) // queries, batch * heads, 1)
    compiled(dim)(grid=grid, block=(WARPS * 32, 1, 1), args=[q, k, v, out, length])
    return out
