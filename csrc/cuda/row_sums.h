// Sums over a block of threads and over rows, for kernels in which a block takes a row at a time.
#pragma once

#include <algorithm>

#include "launch.h"

namespace burnlike::cuda {

inline constexpr int kMaxRowThreads = 512;

// Sums of up to three values over a block, known to each of its threads. Two buffers take turns, so that one barrier
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

// Combines a value over a block, known to each of its threads; `shared` has one value for each warp.
template <class Value, class Combine>
__device__ Value over_block(Value value, Value* shared, const Combine& combine) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, offset));
  }
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

// One block for each row, as many as there may be in a launch; each goes on with the row as many further.
inline uint32_t row_blocks(int64_t rows) { return static_cast<uint32_t>(std::min<int64_t>(rows, 0x7FFFFFFF)); }

// Runs of rows, each of a block of threads, whose sums are added by `column_sums_kernel`: at most `most`, and each with
// rows enough that sums are few beside what is read. The bits of the sums depend on their number.
inline int64_t row_runs(int64_t rows, int64_t most) {
  constexpr int64_t kRunRows = 8;
  return std::clamp<int64_t>(rows / kRunRows, 1, most);
}

inline constexpr int kSumColumns = 8;  // of float32 they fill the 32 bytes that memory gives at least
inline constexpr int kSumRows = 128;

// Adds the rows of `sums`, which have `width` values for `first` and, behind them, `width` for `second` if there is
// one: each column in a fixed order, in a block of (kSumColumns, kSumRows).
template <class Accumulate, class Weight>
__global__ void __launch_bounds__(kSumColumns* kSumRows)
    column_sums_kernel(const Accumulate* sums, Weight* first, Weight* second, int64_t rows, int64_t width) {
  __shared__ Accumulate shared[kSumColumns][kSumRows + 1];
  const int64_t columns = second == nullptr ? width : 2 * width;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kSumColumns + threadIdx.x;
  Accumulate sum = 0;
  if (column < columns) {
    for (int64_t row = threadIdx.y; row < rows; row += kSumRows) sum += sums[row * columns + column];
  }
  shared[threadIdx.x][threadIdx.y] = sum;
  __syncthreads();
  const int thread = threadIdx.y * kSumColumns + threadIdx.x;
  const int warp = thread / kWarp;
  if (warp >= kSumColumns) return;
  sum = 0;
  for (int row = thread % kWarp; row < kSumRows; row += kWarp) sum += shared[warp][row];
  sum = warp_sum(sum);
  const int64_t place = static_cast<int64_t>(blockIdx.x) * kSumColumns + warp;
  if (thread % kWarp != 0 || place >= columns) return;
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
