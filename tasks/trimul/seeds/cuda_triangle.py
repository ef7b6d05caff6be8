import torch

EPS = 1e-5
TILE = 64
DEPTH = 16
PER_THREAD = 4

SOURCE = r"""
#define ACROSS (TILE / PER_THREAD)
#define THREADS (ACROSS * ACROSS)

extern "C" __global__ void __launch_bounds__(THREADS)
triangle_sums(const float* left, const float* right, float* sums, int n) {
  __shared__ float rows[DEPTH][TILE + 1];
  __shared__ float cols[DEPTH][TILE + 1];
  const long long base = static_cast<long long>(blockIdx.z) * n * n;
  const int i0 = blockIdx.y * TILE, j0 = blockIdx.x * TILE;
  const int x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
  float total[PER_THREAD][PER_THREAD] = {};
  for (int start = 0; start < n; start += DEPTH) {
    for (int t = threadIdx.x; t < TILE * DEPTH; t += THREADS) {
      const int k = t % DEPTH, r = t / DEPTH;
      const bool within = start + k < n;
      rows[k][r] = within && i0 + r < n ? left[base + static_cast<long long>(i0 + r) * n + start + k] : 0.0f;
      cols[k][r] = within && j0 + r < n ? right[base + static_cast<long long>(j0 + r) * n + start + k] : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
      float a[PER_THREAD], b[PER_THREAD];
#pragma unroll
      for (int r = 0; r < PER_THREAD; ++r) {
        a[r] = rows[k][y + r * ACROSS];
        b[r] = cols[k][x + r * ACROSS];
      }
#pragma unroll
      for (int r = 0; r < PER_THREAD; ++r)
#pragma unroll
        for (int c = 0; c < PER_THREAD; ++c) total[r][c] = fmaf(a[r], b[c], total[r][c]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < PER_THREAD; ++r)
#pragma unroll
    for (int c = 0; c < PER_THREAD; ++c) {
      const int i = i0 + y + r * ACROSS, j = j0 + x + c * ACROSS;
      if (i < n && j < n) sums[base + static_cast<long long>(i) * n + j] = total[r][c];
    }
}
"""

CONSTANTS = {"TILE": TILE, "DEPTH": DEPTH, "PER_THREAD": PER_THREAD}
THREADS = (TILE // PER_THREAD) ** 2
kernels = []


def compiled():
    if not kernels:
        defines = "".join(f"#define {name} {value}\n" for name, value in CONSTANTS.items())
        kernels.append(torch.cuda._compile_kernel(defines + SOURCE, "triangle_sums"))
    return kernels[0]


def custom_kernel(data):
    x, mask, norm_w, norm_b, w_left, w_right, w_left_gate, w_right_gate, w_gate, out_norm_w, out_norm_b, w_out = data
    batch, n, _, dim = x.shape
    hidden = w_left.shape[0]
    layer_norm = torch.nn.functional.layer_norm
    rows = layer_norm(x, norm_w.shape, norm_w, norm_b, EPS).view(batch, n * n, dim).transpose(1, 2)
    kept = mask.view(batch, 1, n * n)
    left = torch.matmul(w_left, rows).mul_(torch.matmul(w_left_gate, rows).sigmoid_()).mul_(kept)
    right = torch.matmul(w_right, rows).mul_(torch.matmul(w_right_gate, rows).sigmoid_()).mul_(kept)
    sums = torch.empty((batch, hidden, n, n), device=x.device, dtype=x.dtype)
    tiles = (n + TILE - 1) // TILE
    compiled()(grid=(tiles, tiles, batch * hidden), block=(THREADS, 1, 1), args=[left, right, sums, n])
    pairs = layer_norm(sums.permute(0, 2, 3, 1), out_norm_w.shape, out_norm_w, out_norm_b, EPS)
    gate = torch.matmul(w_gate, rows).sigmoid_().transpose(1, 2).view(batch, n, n, hidden)
    return torch.nn.functional.linear(pairs * gate, w_out)
