import torch

SPAN = 64
COLUMNS = 16
ROWS_PER_THREAD = 4
MAX_KEY = 128
TILE_ROWS = 16

SOURCE = r"""
#define THREADS (SPAN / ROWS_PER_THREAD * COLUMNS)
#define KEYS_PER_THREAD (MAX_KEY * COLUMNS / THREADS)

extern "C" __global__ void __launch_bounds__(THREADS)
state_recurrence(const float* k, const float* w, const float* u, const float* g, float* h, float* v_new, int chunks,
                 int heads, int key, int value) {
  __shared__ float state[MAX_KEY][COLUMNS];
  __shared__ float kept[SPAN][COLUMNS];
  __shared__ float tile[TILE_ROWS][MAX_KEY + 1];
  __shared__ float factor[SPAN];
  const int column = threadIdx.x % COLUMNS, group = threadIdx.x / COLUMNS;
  const int v_column = blockIdx.x * COLUMNS + column;
  const int batch = blockIdx.y / heads, head = blockIdx.y % heads;
  for (int i = threadIdx.x; i < MAX_KEY * COLUMNS; i += THREADS) state[i / COLUMNS][i % COLUMNS] = 0.0f;
  for (int c = 0; c < chunks; ++c) {
    const long long chunk = static_cast<long long>(batch) * chunks + c;
    const long long first = chunk * SPAN * heads + head;
    const float last = g[first + static_cast<long long>(SPAN - 1) * heads];
    for (int i = threadIdx.x; i < SPAN; i += THREADS)
      factor[i] = expf(last - g[first + static_cast<long long>(i) * heads]);
    __syncthreads();
    for (int i = group; i < key; i += THREADS / COLUMNS)
      h[((chunk * heads + head) * key + i) * value + v_column] = state[i][column];
    for (int start = 0; start < SPAN; start += TILE_ROWS) {
      for (int i = threadIdx.x; i < TILE_ROWS * key; i += THREADS)
        tile[i / key][i % key] = w[(first + static_cast<long long>(start + i / key) * heads) * key + i % key];
      __syncthreads();
      for (int r = group; r < TILE_ROWS; r += THREADS / COLUMNS) {
        float erased = 0.0f;
#pragma unroll 8
        for (int i = 0; i < key; ++i) erased = fmaf(tile[r][i], state[i][column], erased);
        const long long at = (first + static_cast<long long>(start + r) * heads) * value + v_column;
        const float fresh = u[at] - erased;
        v_new[at] = fresh;
        kept[start + r][column] = fresh * factor[start + r];
      }
      __syncthreads();
    }
    const float decay = expf(last);
    float total[KEYS_PER_THREAD];
#pragma unroll
    for (int j = 0; j < KEYS_PER_THREAD; ++j) total[j] = state[group + j * (THREADS / COLUMNS)][column] * decay;
    for (int start = 0; start < SPAN; start += TILE_ROWS) {
      for (int i = threadIdx.x; i < TILE_ROWS * key; i += THREADS)
        tile[i / key][i % key] = k[(first + static_cast<long long>(start + i / key) * heads) * key + i % key];
      __syncthreads();
#pragma unroll
      for (int j = 0; j < KEYS_PER_THREAD; ++j) {
        const int i = group + j * (THREADS / COLUMNS);
        if (i < key)
          for (int r = 0; r < TILE_ROWS; ++r) total[j] = fmaf(tile[r][i], kept[start + r][column], total[j]);
      }
      __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < KEYS_PER_THREAD; ++j) state[group + j * (THREADS / COLUMNS)][column] = total[j];
    __syncthreads();
  }
}
"""

CONSTANTS = {
    "SPAN": SPAN,
    "COLUMNS": COLUMNS,
    "ROWS_PER_THREAD": ROWS_PER_THREAD,
    "MAX_KEY": MAX_KEY,
    "TILE_ROWS": TILE_ROWS,
}
THREADS = SPAN // ROWS_PER_THREAD * COLUMNS
kernels = []


def compiled():
    if not kernels:
        defines = "".join(f"#define {name} {value}\n" for name, value in CONSTANTS.items())
        kernels.append(torch.cuda._compile_kernel(defines + SOURCE, "state_recurrence"))
    return kernels[0]


def custom_kernel(data):
    k, w, u, g = data
    batch, length, heads, key = k.shape
    value = u.shape[-1]
    chunks = length // SPAN
    h = torch.empty((batch, chunks, heads, key, value), device=k.device, dtype=k.dtype)
    v_new = torch.empty_like(u)
    grid = (value // COLUMNS, batch * heads, 1)
    compiled()(grid=grid, block=(THREADS, 1, 1), args=[k, w, u, g, h, v_new, chunks, heads, key, value])
    return h, v_new
