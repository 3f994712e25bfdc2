// Sums over a block of threads and over rows, for kernels in which a block takes a row at a time, or, where a warp is
// enough for one, each of its warps.
#pragma once

#include <algorithm>

#include "launch.h"

namespace burnlike::cuda {

inline constexpr int kMaxRowThreads = 512;

// The threads of a block: those of one row, or of several for each of which a warp is enough. A block of one warp would
// leave half a multiprocessor empty, which runs 32 blocks and 64 warps.
inline dim3 row_block(int threads) { return threads > kWarp ? dim3(threads) : dim3(kWarp, 8); }

// The row that a thread begins with, and how many further the next one is.
__device__ __forceinline__ int64_t first_row() { return static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; }
__device__ __forceinline__ int64_t row_step() { return static_cast<int64_t>(gridDim.x) * blockDim.y; }

// Sums of up to three values over a row's threads, known to each of them. Two buffers take turns, so that one barrier
// for each sum is enough: whoever writes to a buffer again has met all that read it at the barrier of the other.
template <class Accumulate>
struct BlockSums {
  static constexpr int kBuffer = 3 * kWarp;
  static constexpr int kShared = 2 * kBuffer;

  Accumulate* shared;  // kShared values
  int turn = 0;

  template <int kCount>
  __device__ __forceinline__ void add(Accumulate (&values)[kCount]) {
    static_assert(kCount * kWarp <= kBuffer);
    const int warps = blockDim.x / kWarp;
    const int lane = threadIdx.x % kWarp;
    for (int index = 0; index < kCount; ++index) values[index] = warp_sum(values[index]);
    if (warps == 1) return;
    Accumulate* buffer = shared + turn * kBuffer;
    turn = 1 - turn;
    if (lane == 0) {
      for (int index = 0; index < kCount; ++index) buffer[index * kWarp + threadIdx.x / kWarp] = values[index];
    }
    __syncthreads();
    for (int index = 0; index < kCount; ++index) {
      values[index] = warp_sum(lane < warps ? buffer[index * kWarp + lane] : Accumulate(0));
    }
  }
};

// Combines a value over a row's threads, known to each of them; `shared` has one value for each warp.
template <class Value, class Combine>
__device__ Value over_block(Value value, Value* shared, const Combine& combine) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, offset));
  }
  if (blockDim.x == kWarp) return value;
  __syncthreads();
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = shared[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) value = combine(value, shared[warp]);
  return value;
}

struct Add {
  template <class Value>
  __device__ Value operator()(Value one, Value other) const {
    return one + other;
  }
};

struct Larger {
  template <class Value>
  __device__ Value operator()(Value one, Value other) const {
    return other > one ? other : one;
  }
};

// Threads of a block in which each takes one of `items`, or several where there are more.
inline int row_threads(int64_t items) {
  return static_cast<int>(std::clamp<int64_t>((items + kWarp - 1) / kWarp * kWarp, kWarp, kMaxRowThreads));
}

// Blocks for all rows, as many as there may be in a launch; each goes on with rows as many further.
inline uint32_t row_blocks(int64_t rows, const dim3& block) {
  return static_cast<uint32_t>(std::min<int64_t>((rows + block.y - 1) / block.y, 0x7FFFFFFF));
}

// Runs of rows, each of a block of threads, whose sums are added by `column_sums_kernel`: at most `most`, and each with
// rows enough that sums are few beside what is read. The bits of the sums depend on their number.
inline int64_t row_runs(int64_t rows, int64_t most) {
  constexpr int64_t kRunRows = 8;
  return std::clamp<int64_t>(rows / kRunRows, 1, most);
}

// A warp reads 128 bytes of float32 side by side, and a thread eight of its rows before it adds the first.
inline constexpr int kSumColumns = kWarp;
inline constexpr int kSumRows = kWarp;

// Adds the rows of `sums`, which have `width` values for `first` and, behind them, `width` for `second` if there is
// one: each column in a fixed order, in a block of (kSumColumns, kSumRows).
template <class Accumulate, class Weight>
__global__ void __launch_bounds__(kSumColumns* kSumRows)
    column_sums_kernel(const Accumulate* sums, Weight* first, Weight* second, int64_t rows, int64_t width) {
  __shared__ Accumulate shared[kSumRows][kSumColumns + 1];
  const int64_t columns = second == nullptr ? width : 2 * width;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kSumColumns + threadIdx.x;
  Accumulate sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (int64_t row = threadIdx.y; row < rows; row += kSumRows) sum += sums[row * columns + column];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  sum = warp_sum(shared[threadIdx.x][threadIdx.y]);
  const int64_t place = static_cast<int64_t>(blockIdx.x) * kSumColumns + threadIdx.y;
  if (threadIdx.x != 0 || place >= columns) return;
  (place < width ? first + place : second + (place - width))[0] = store<Weight>(sum);
}

// Starts it.
template <class Accumulate, class Weight>
void add_columns(
    const Accumulate* sums, Weight* first, Weight* second, int64_t rows, int64_t width, cudaStream_t stream) {
  const int64_t columns = second == nullptr ? width : 2 * width;
  const auto blocks = static_cast<uint32_t>((columns + kSumColumns - 1) / kSumColumns);
  launch(
      column_sums_kernel<Accumulate, Weight>, blocks, dim3(kSumColumns, kSumRows), stream, sums, first, second, rows,
      width);
}

}  // namespace burnlike::cuda
