import torch

SPAN = 64
COLUMNS = 32
ROWS_PER_THREAD = 4
COLUMNS_PER_THREAD = 2

SOURCE = r"""
#define ACROSS (COLUMNS / COLUMNS_PER_THREAD)
#define THREADS (SPAN / ROWS_PER_THREAD * ACROSS)

__device__ __forceinline__ void product(const float* x, const float* scale, float (*tile)[COLUMNS],
                                        const float (*a)[SPAN + 1], float* out, long long first, int heads, int width,
                                        int start) {
  for (int i = threadIdx.x; i < SPAN * COLUMNS; i += THREADS) {
    const int row = i / COLUMNS, column = start + i % COLUMNS;
    const long long token = first + static_cast<long long>(row) * heads;
    tile[row][i % COLUMNS] = column < width ? x[token * width + column] * scale[row] : 0.0f;
  }
  __syncthreads();
  const int row0 = threadIdx.x / ACROSS * ROWS_PER_THREAD;
  const int column0 = threadIdx.x % ACROSS;
  float total[ROWS_PER_THREAD][COLUMNS_PER_THREAD] = {};
#pragma unroll 8
  for (int j = 0; j < SPAN; ++j) {
#pragma unroll
    for (int c = 0; c < COLUMNS_PER_THREAD; ++c) {
      const float value = tile[j][column0 + c * ACROSS];
#pragma unroll
      for (int r = 0; r < ROWS_PER_THREAD; ++r) total[r][c] = fmaf(a[row0 + r][j], value, total[r][c]);
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r)
#pragma unroll
    for (int c = 0; c < COLUMNS_PER_THREAD; ++c) {
      const int column = start + column0 + c * ACROSS;
      const long long token = first + static_cast<long long>(row0 + r) * heads;
      if (column < width) out[token * width + column] = total[r][c];
    }
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
tile_w_u(const float* k, const float* v, const float* beta, const float* a, const float* g, float* w, float* u,
         int heads, int key, int value) {
  __shared__ float matrix[SPAN][SPAN + 1];
  __shared__ float tile[SPAN][COLUMNS];
  __shared__ float step[SPAN];
  __shared__ float gain[SPAN];
  const long long first = static_cast<long long>(blockIdx.x) * SPAN * heads + blockIdx.y;
  for (int i = threadIdx.x; i < SPAN * SPAN; i += THREADS) {
    const long long token = first + static_cast<long long>(i / SPAN) * heads;
    matrix[i / SPAN][i % SPAN] = a[token * SPAN + i % SPAN];
  }
  for (int i = threadIdx.x; i < SPAN; i += THREADS) {
    const long long token = first + static_cast<long long>(i) * heads;
    step[i] = beta[token];
    gain[i] = beta[token] * expf(g[token]);
  }
  __syncthreads();
  for (int start = 0; start < key; start += COLUMNS) product(k, gain, tile, matrix, w, first, heads, key, start);
  for (int start = 0; start < value; start += COLUMNS) product(v, step, tile, matrix, u, first, heads, value, start);
}
"""

CONSTANTS = {
    "SPAN": SPAN,
    "COLUMNS": COLUMNS,
    "ROWS_PER_THREAD": ROWS_PER_THREAD,
    "COLUMNS_PER_THREAD": COLUMNS_PER_THREAD,
}
THREADS = SPAN // ROWS_PER_THREAD * (COLUMNS // COLUMNS_PER_THREAD)
kernels = []


def compiled():
    if not kernels:
        defines = "".join(f"#define {name} {value}\n" for name, value in CONSTANTS.items())
        kernels.append(torch.cuda._compile_kernel(defines + SOURCE, "tile_w_u"))
    return kernels[0]


def custom_kernel(data):
    k, v, beta, a, g = data
    batch, length, heads, key = k.shape
    value = v.shape[-1]
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    grid = (batch * length // SPAN, heads, 1)
    compiled()(grid=grid, block=(THREADS, 1, 1), args=[k, v, beta, a, g, w, u, heads, key, value])
    return w, u
