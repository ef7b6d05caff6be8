import torch

COLUMNS = 16
STATE_LANES = 8
MAX_STATE = 128
TOKENS = 16

SOURCE = r"""
#define THREADS (COLUMNS * STATE_LANES)
#define PER_LANE (MAX_STATE / STATE_LANES)

extern "C" __global__ void __launch_bounds__(THREADS)
recurrent_scan(const float* x, const float* a, const float* b, const float* c, float* y, int length, int heads,
               int width, int size) {
  __shared__ float inputs[TOKENS][MAX_STATE];
  __shared__ float outputs[TOKENS][MAX_STATE];
  __shared__ float decay[TOKENS];
  const int part = threadIdx.x % STATE_LANES;
  const int column = blockIdx.x * COLUMNS + threadIdx.x / STATE_LANES;
  const long long batch = blockIdx.y / heads;
  const int head = blockIdx.y % heads;
  float state[PER_LANE] = {};
  for (int start = 0; start < length; start += TOKENS) {
    const long long first = (batch * length + start) * heads + head;
    __syncthreads();
    for (int i = threadIdx.x; i < TOKENS * MAX_STATE; i += THREADS) {
      const int t = i / MAX_STATE, n = i % MAX_STATE;
      const long long at = (first + static_cast<long long>(t) * heads) * size + n;
      inputs[t][n] = n < size ? b[at] : 0.0f;
      outputs[t][n] = n < size ? c[at] : 0.0f;
    }
    for (int t = threadIdx.x; t < TOKENS; t += THREADS) decay[t] = expf(a[first + static_cast<long long>(t) * heads]);
    __syncthreads();
    for (int t = 0; t < TOKENS; ++t) {
      const long long at = (first + static_cast<long long>(t) * heads) * width + column;
      const float value = x[at];
      float total = 0.0f;
#pragma unroll
      for (int j = 0; j < PER_LANE; ++j) {
        const int n = j * STATE_LANES + part;
        state[j] = fmaf(state[j], decay[t], inputs[t][n] * value);
        total = fmaf(outputs[t][n], state[j], total);
      }
#pragma unroll
      for (int step = 1; step < STATE_LANES; step *= 2) total += __shfl_xor_sync(0xffffffffu, total, step);
      if (part == 0) y[at] = total;
    }
  }
}
"""

CONSTANTS = {"COLUMNS": COLUMNS, "STATE_LANES": STATE_LANES, "MAX_STATE": MAX_STATE, "TOKENS": TOKENS}
THREADS = COLUMNS * STATE_LANES
kernels = []


def compiled():
    if not kernels:
        defines = "".join(f"#define {name} {value}\n" for name, value in CONSTANTS.items())
        kernels.append(torch.cuda._compile_kernel(defines + SOURCE, "recurrent_scan"))
    return kernels[0]


def custom_kernel(data):
    x, a, b, c = data
    batch, length, heads, width = x.shape
    y = torch.empty_like(x)
    grid = (width // COLUMNS, batch * heads, 1)
    compiled()(grid=grid, block=(THREADS, 1, 1), args=[x, a, b, c, y, length, heads, width, b.shape[-1]])
    return y
