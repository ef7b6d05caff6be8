import torch

SPAN = 64
COLUMNS = 16
KEY_LANES = 8
MAX_KEY = 128
TOKENS = 16

SOURCE = r"""
#define THREADS (COLUMNS * KEY_LANES)
#define KEYS_PER_LANE (MAX_KEY / KEY_LANES)

extern "C" __global__ void __launch_bounds__(THREADS)
recurrent_output(const float* q, const float* k, const float* v, const float* h, const float* g, float* o, int heads,
                 int key, int value) {
  __shared__ float query[TOKENS][MAX_KEY];
  __shared__ float keys[TOKENS][MAX_KEY];
  __shared__ float gain[SPAN];
  const int part = threadIdx.x % KEY_LANES;
  const int column = blockIdx.x * COLUMNS + threadIdx.x / KEY_LANES;
  const long long chunk = blockIdx.y / heads;
  const int head = blockIdx.y % heads;
  const long long first = chunk * SPAN * heads + head;
  const float scale = 1.0f / sqrtf(static_cast<float>(key));
  for (int i = threadIdx.x; i < SPAN; i += THREADS) gain[i] = g[first + static_cast<long long>(i) * heads];
  float state[KEYS_PER_LANE];
#pragma unroll
  for (int j = 0; j < KEYS_PER_LANE; ++j) {
    const int i = j * KEY_LANES + part;
    state[j] = i < key ? h[((chunk * heads + head) * key + i) * value + column] : 0.0f;
  }
  float before = 0.0f;
  for (int start = 0; start < SPAN; start += TOKENS) {
    __syncthreads();
    for (int i = threadIdx.x; i < TOKENS * MAX_KEY; i += THREADS) {
      const int t = i / MAX_KEY, d = i % MAX_KEY;
      const long long at = (first + static_cast<long long>(start + t) * heads) * key + d;
      query[t][d] = d < key ? q[at] : 0.0f;
      keys[t][d] = d < key ? k[at] : 0.0f;
    }
    __syncthreads();
    for (int t = 0; t < TOKENS; ++t) {
      const long long at = (first + static_cast<long long>(start + t) * heads) * value + column;
      const float decay = expf(gain[start + t] - before);
      const float fresh = v[at];
      before = gain[start + t];
      float total = 0.0f;
#pragma unroll
      for (int j = 0; j < KEYS_PER_LANE; ++j) {
        const int i = j * KEY_LANES + part;
        state[j] = fmaf(state[j], decay, keys[t][i] * fresh);
        total = fmaf(query[t][i], state[j], total);
      }
#pragma unroll
      for (int step = 1; step < KEY_LANES; step *= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
      if (part == 0) o[at] = total * scale;
    }
  }
}
"""

CONSTANTS = {
    "SPAN": SPAN,
    "COLUMNS": COLUMNS,
    "KEY_LANES": KEY_LANES,
    "MAX_KEY": MAX_KEY,
    "TOKENS": TOKENS,
}
THREADS = COLUMNS * KEY_LANES
kernels = []


def compiled():
    if not kernels:
        defines = "".join(f"#define {name} {value}\n" for name, value in CONSTANTS.items())
        kernels.append(torch.cuda._compile_kernel(defines + SOURCE, "recurrent_output"))
    return kernels[0]


def custom_kernel(data):
    q, k, v_new, h, g = data
    batch, length, heads, key = q.shape
    value = v_new.shape[-1]
    o = torch.empty_like(v_new)
    grid = (value // COLUMNS, batch * length // SPAN * heads, 1)
    compiled()(grid=grid, block=(THREADS, 1, 1), args=[q, k, v_new, h, g, o, heads, key, value])
    return o
