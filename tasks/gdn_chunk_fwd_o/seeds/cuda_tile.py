import torch

SPAN = 64
COLUMNS = 32
DEPTH = 16
ROWS_PER_THREAD = 4

SOURCE = r"""
#define THREADS (SPAN / ROWS_PER_THREAD * 16)
#define KEYS_PER_THREAD (SPAN / 16)
#define COLUMNS_PER_THREAD (COLUMNS / 16)

extern "C" __global__ void __launch_bounds__(THREADS)
tile_output(const float* q, const float* k, const float* v, const float* h, const float* g, float* o, int heads,
            int key, int value) {
  __shared__ float weights[SPAN][SPAN + 1];
  __shared__ float left[SPAN][DEPTH + 1];
  __shared__ float right[SPAN][DEPTH + 1];
  __shared__ float tile[SPAN][COLUMNS];
  __shared__ float gain[SPAN];
  const long long chunk = blockIdx.x;
  const int head = blockIdx.y;
  const long long first = chunk * SPAN * heads + head;
  const int row0 = threadIdx.x / 16 * ROWS_PER_THREAD, across = threadIdx.x % 16;
  const float scale = 1.0f / sqrtf(static_cast<float>(key));
  for (int i = threadIdx.x; i < SPAN; i += THREADS) gain[i] = g[first + static_cast<long long>(i) * heads];

  float dots[ROWS_PER_THREAD][KEYS_PER_THREAD] = {};
  for (int start = 0; start < key; start += DEPTH) {
    __syncthreads();
    for (int i = threadIdx.x; i < SPAN * DEPTH; i += THREADS) {
      const long long at = (first + static_cast<long long>(i / DEPTH) * heads) * key + start + i % DEPTH;
      left[i / DEPTH][i % DEPTH] = q[at];
      right[i / DEPTH][i % DEPTH] = k[at];
    }
    __syncthreads();
#pragma unroll 4
    for (int d = 0; d < DEPTH; ++d)
#pragma unroll
      for (int c = 0; c < KEYS_PER_THREAD; ++c) {
        const float factor = right[across + c * 16][d];
#pragma unroll
        for (int r = 0; r < ROWS_PER_THREAD; ++r) dots[r][c] = fmaf(left[row0 + r][d], factor, dots[r][c]);
      }
  }
#pragma unroll
  for (int r = 0; r < ROWS_PER_THREAD; ++r)
#pragma unroll
    for (int c = 0; c < KEYS_PER_THREAD; ++c) {
      const int i = row0 + r, j = across + c * 16;
      weights[i][j] = j <= i ? dots[r][c] * expf(gain[i] - gain[j]) : 0.0f;
    }

  for (int column0 = 0; column0 < value; column0 += COLUMNS) {
    float total[ROWS_PER_THREAD][COLUMNS_PER_THREAD] = {};
    for (int start = 0; start < key; start += DEPTH) {
      __syncthreads();
      for (int i = threadIdx.x; i < SPAN * DEPTH; i += THREADS)
        left[i / DEPTH][i % DEPTH] = q[(first + static_cast<long long>(i / DEPTH) * heads) * key + start + i % DEPTH];
      for (int i = threadIdx.x; i < DEPTH * COLUMNS; i += THREADS) {
        const int column = column0 + i % COLUMNS;
        const long long at = ((chunk * heads + head) * key + start + i / COLUMNS) * value + column;
        tile[i / COLUMNS][i % COLUMNS] = column < value ? h[at] : 0.0f;
      }
      __syncthreads();
#pragma unroll 4
      for (int d = 0; d < DEPTH; ++d)
#pragma unroll
        for (int c = 0; c < COLUMNS_PER_THREAD; ++c) {
          const float factor = tile[d][across + c * 16];
#pragma unroll
          for (int r = 0; r < ROWS_PER_THREAD; ++r) total[r][c] = fmaf(left[row0 + r][d], factor, total[r][c]);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < SPAN * COLUMNS; i += THREADS) {
      const int column = column0 + i % COLUMNS;
      const long long at = (first + static_cast<long long>(i / COLUMNS) * heads) * value + column;
      tile[i / COLUMNS][i % COLUMNS] = column < value ? v[at] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r)
#pragma unroll
      for (int c = 0; c < COLUMNS_PER_THREAD; ++c) total[r][c] *= expf(gain[row0 + r]);
    for (int j = 0; j < row0 + ROWS_PER_THREAD; ++j)
#pragma unroll
      for (int c = 0; c < COLUMNS_PER_THREAD; ++c) {
        const float factor = tile[j][across + c * 16];
#pragma unroll
        for (int r = 0; r < ROWS_PER_THREAD; ++r) total[r][c] = fmaf(weights[row0 + r][j], factor, total[r][c]);
      }
#pragma unroll
    for (int r = 0; r < ROWS_PER_THREAD; ++r)
#pragma unroll
      for (int c = 0; c < COLUMNS_PER_THREAD; ++c) {
        const int column = column0 + across + c * 16;
        const long long token = first + static_cast<long long>(row0 + r) * heads;
        if (column < value) o[token * value + column] = total[r][c] * scale;
      }
  }
}
"""

CONSTANTS = {"SPAN": SPAN, "COLUMNS": COLUMNS, "DEPTH": DEPTH, "ROWS_PER_THREAD": ROWS_PER_THREAD}
THREADS = SPAN // ROWS_PER_THREAD * 16
kernels = []


def compiled():
    if not kernels:
        defines = "".join(f"#define {name} {value}\n" for name, value in CONSTANTS.items())
        kernels.append(torch.cuda._compile_kernel(defines + SOURCE, "tile_output"))
    return kernels[0]


def custom_kernel(data):
    q, k, v_new, h, g = data
    batch, length, heads, key = q.shape
    value = v_new.shape[-1]
    o = torch.empty_like(v_new)
    grid = (batch * length // SPAN, heads, 1)
    compiled()(grid=grid, block=(THREADS, 1, 1), args=[q, k, v_new, h, g, o, heads, key, value])
    return o
