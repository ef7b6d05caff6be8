import torch

HIDDEN = 128
EPS = 1e-5
TILE = 32
GROUPS = 8

SOURCE = r"""
#define THREADS (TILE * GROUPS)
typedef unsigned short u16;

__device__ __forceinline__ u16 narrow(float value) {
  const unsigned int bits = __float_as_uint(value);
  return static_cast<u16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

__device__ __forceinline__ float widen(u16 value) { return __uint_as_float(static_cast<unsigned int>(value) << 16); }

__device__ __forceinline__ float sigmoid(float value) { return 1.0f / (1.0f + expf(-value)); }

extern "C" __global__ void __launch_bounds__(THREADS)
gate_edges(const float* projected, const float* mask, u16* edges, int plane, int batch) {
  __shared__ float tile[TILE][TILE + 1];
  const int lane = threadIdx.x % TILE, group = threadIdx.x / TILE;
  const int spot0 = blockIdx.x * TILE, channel0 = blockIdx.y * TILE;
  const int b = blockIdx.z % batch, side = blockIdx.z / batch;
  for (int r = group; r < TILE; r += GROUPS) {
    const int spot = spot0 + r;
    if (spot < plane) {
      const long long row = static_cast<long long>(b) * plane + spot;
      const float* from = projected + row * 5 * HIDDEN + side * HIDDEN + channel0 + lane;
      tile[r][lane] = from[0] * sigmoid(from[2 * HIDDEN]) * mask[row];
    }
  }
  __syncthreads();
  for (int r = group; r < TILE; r += GROUPS) {
    const long long channel = (static_cast<long long>(side) * batch + b) * HIDDEN + channel0 + r;
    if (spot0 + lane < plane) edges[channel * plane + spot0 + lane] = narrow(tile[lane][r]);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
normalise_pairs(const u16* sums, const float* projected, const float* weight, const float* bias, float* out,
                int plane) {
  __shared__ float tile[HIDDEN][TILE + 1];
  __shared__ float part[GROUPS][TILE];
  const int lane = threadIdx.x % TILE, group = threadIdx.x / TILE;
  const int spot0 = blockIdx.x * TILE;
  const bool inside = spot0 + lane < plane;
  float total = 0.0f;
  for (int c = group; c < HIDDEN; c += GROUPS) {
    const long long channel = static_cast<long long>(blockIdx.y) * HIDDEN + c;
    const float value = inside ? widen(sums[channel * plane + spot0 + lane]) : 0.0f;
    tile[c][lane] = value;
    total += value;
  }
  part[group][lane] = total;
  __syncthreads();
  float mean = 0.0f;
  for (int i = 0; i < GROUPS; ++i) mean += part[i][lane];
  mean /= HIDDEN;
  __syncthreads();
  float square = 0.0f;
  for (int c = group; c < HIDDEN; c += GROUPS) {
    const float centred = tile[c][lane] - mean;
    square = fmaf(centred, centred, square);
  }
  part[group][lane] = square;
  __syncthreads();
  float variance = 0.0f;
  for (int i = 0; i < GROUPS; ++i) variance += part[i][lane];
  const float scale = 1.0f / sqrtf(variance / HIDDEN + EPS);
  for (int c = group; c < HIDDEN; c += GROUPS) tile[c][lane] = (tile[c][lane] - mean) * scale;
  __syncthreads();
  for (int i = threadIdx.x; i < TILE * HIDDEN; i += THREADS) {
    const int spot = spot0 + i / HIDDEN, c = i % HIDDEN;
    if (spot < plane) {
      const long long row = static_cast<long long>(blockIdx.y) * plane + spot;
      const float value = tile[c][i / HIDDEN] * weight[c] + bias[c];
      out[row * HIDDEN + c] = value * sigmoid(projected[row * 5 * HIDDEN + 4 * HIDDEN + c]);
    }
  }
}
"""

CONSTANTS = {"HIDDEN": HIDDEN, "EPS": f"{EPS}f", "TILE": TILE, "GROUPS": GROUPS}
kernels = {}


def compiled(name):
    if name not in kernels:
        defines = "".join(f"#define {key} {value}\n" for key, value in CONSTANTS.items())
        kernels[name] = torch.cuda._compile_kernel(defines + SOURCE, name)
    return kernels[name]


def custom_kernel(data):
    x, mask, norm_w, norm_b, w_left, w_right, w_left_gate, w_right_gate, w_gate, out_norm_w, out_norm_b, w_out = data
    batch, n, _, dim = x.shape
    plane = n * n
    packed = torch.cat((w_left, w_right, w_left_gate, w_right_gate, w_gate))
    rows = torch.nn.functional.layer_norm(x, norm_w.shape, norm_w, norm_b, EPS)
    projected = rows.view(-1, dim) @ packed.t()
    edges = torch.empty((2, batch, HIDDEN, n, n), device=x.device, dtype=torch.bfloat16)
    block = (TILE * GROUPS, 1, 1)
    spots = (plane + TILE - 1) // TILE
    grid = (spots, HIDDEN // TILE, 2 * batch)
    compiled("gate_edges")(grid=grid, block=block, args=[projected, mask, edges, plane, batch])
    sums = torch.matmul(edges[0], edges[1].transpose(-1, -2))
    gated = torch.empty((batch * plane, HIDDEN), device=x.device, dtype=x.dtype)
    compiled("normalise_pairs")(
        grid=(spots, batch, 1), block=block, args=[sums, projected, out_norm_w, out_norm_b, gated, plane]
    )
    return (gated @ w_out.t()).view(x.shape)
