import torch

QUERIES = 64
KEYS = 16
TEAM = 4

SOURCE = r"""
#define THREADS (QUERIES * TEAM)
#define QUADS (DIM / 4)
#define OWN_QUADS (QUADS / TEAM)

__device__ __forceinline__ float dot(float4 a, float4 b, float sum) {
  return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, sum))));
}

extern "C" __global__ void __launch_bounds__(THREADS)
attention_core(const float4* qkv, float4* y, int length, int heads) {
  __shared__ float4 k_tile[KEYS * QUADS];
  __shared__ float4 v_tile[KEYS * QUADS];
  const int sequence = blockIdx.y / heads;
  const int head = blockIdx.y % heads;
  const int width = heads * QUADS;
  const float4* base = qkv + static_cast<long long>(sequence) * length * 3 * width + head * QUADS;
  const int first = (gridDim.x - 1 - blockIdx.x) * QUERIES;
  const int row = first + threadIdx.x / TEAM;
  const int member = threadIdx.x % TEAM;
  const float scale = rsqrtf(static_cast<float>(DIM));
  float4 own_q[OWN_QUADS], sum[OWN_QUADS];
#pragma unroll
  for (int i = 0; i < OWN_QUADS; ++i) {
    own_q[i] = base[static_cast<long long>(min(row, length - 1)) * 3 * width + i * TEAM + member];
    sum[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  float peak = -1e30f;
  float total = 0.0f;
  const int end = min(first + QUERIES, length);
  for (int start = 0; start < end; start += KEYS) {
    __syncthreads();
    for (int i = threadIdx.x; i < KEYS * QUADS; i += THREADS) {
      const long long at = static_cast<long long>(min(start + i / QUADS, length - 1)) * 3 * width + i % QUADS;
      k_tile[i] = base[at + width];
      v_tile[i] = base[at + 2 * width];
    }
    __syncthreads();
    float score[KEYS];
    float new_peak = peak;
#pragma unroll
    for (int key = 0; key < KEYS; ++key) {
      float s = 0.0f;
#pragma unroll
      for (int i = 0; i < OWN_QUADS; ++i) s = dot(own_q[i], k_tile[key * QUADS + i * TEAM + member], s);
#pragma unroll
      for (int d = TEAM / 2; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
      score[key] = start + key <= row ? s * scale : -1e30f;
      new_peak = fmaxf(new_peak, score[key]);
    }
    const float shrink = __expf(peak - new_peak);
    peak = new_peak;
    total *= shrink;
#pragma unroll
    for (int i = 0; i < OWN_QUADS; ++i) {
      sum[i] = make_float4(sum[i].x * shrink, sum[i].y * shrink, sum[i].z * shrink, sum[i].w * shrink);
    }
#pragma unroll
    for (int key = 0; key < KEYS; ++key) {
      const float weight = __expf(score[key] - peak);
      total += weight;
#pragma unroll
      for (int i = 0; i < OWN_QUADS; ++i) {
        const float4 value = v_tile[key * QUADS + i * TEAM + member];
        sum[i].x = fmaf(weight, value.x, sum[i].x);
        sum[i].y = fmaf(weight, value.y, sum[i].y);
        sum[i].z = fmaf(weight, value.z, sum[i].z);
        sum[i].w = fmaf(weight, value.w, sum[i].w);
      }
    }
  }
  if (row >= length) return;
  const float inverse = 1.0f / total;
  float4* to = y + (static_cast<long long>(sequence) * length + row) * width + head * QUADS;
#pragma unroll
  for (int i = 0; i < OWN_QUADS; ++i) {
    to[i * TEAM + member] =
        make_float4(sum[i].x * inverse, sum[i].y * inverse, sum[i].z * inverse, sum[i].w * inverse);
  }
}
"""

kernels = {}


def compiled(dim):
    if dim not in kernels:
        constants = {"QUERIES": QUERIES, "KEYS": KEYS, "TEAM": TEAM, "DIM": dim}
        defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
        kernels[dim] = torch.cuda._compile_kernel(defines + SOURCE, "attention_core")
    return kernels[dim]


def custom_kernel(data):
    x, w_qkv, b_qkv, w_proj, b_proj = data
    batch, length, width = x.shape
    heads, dim = b_qkv.shape[1:]
    qkv = torch.nn.functional.linear(x, w_qkv.view(-1, width), b_qkv.view(-1))
    y = torch.empty_like(x)
    grid = ((length + QUERIES - 1) // QUERIES, batch * heads, 1)
    compiled(dim)(grid=grid, block=(QUERIES * TEAM, 1, 1), args=[qkv, y, length, heads])
    return torch.nn.functional.linear(y, w_proj, b_proj)
