// Sums of squares of many gradients on CUDA. Each block of threads sums one chunk; then one block for each tensor sums
// those of its chunks. All in a fixed order: the bits do not depend on the device.
#include "burnlike/gradient_squares.h"

#include <cmath>
#include <cstdint>

#include "burnlike/calls.h"
#include "chunks.h"
#include "launch.h"

namespace burnlike::cuda {
namespace {

CallCounter calls{"gradient_squares_"};

constexpr int kThreads = 256;

struct Entry {
  const void* values;
  double* square;
  int64_t count;
  ElementKind kind;
};

struct Table {
  static constexpr int kMaxTensors =
      static_cast<int>((kFewArgumentBytes - sizeof(double*) - sizeof(int64_t)) / (sizeof(Entry) + sizeof(uint32_t)));

  double* sums;  // one for each chunk
  int32_t tensor_count;
  Entry entries[kMaxTensors];
  uint32_t chunk_ends[kMaxTensors];
};

// Both kernels get it.
static_assert(sizeof(Table) <= kFewArgumentBytes);

// The sum over a block of threads, known to the first one.
__device__ __forceinline__ double block_sum(double value) {
  __shared__ double sums[kThreads / kWarp];
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0) {
    for (const double part : sums) sum += part;
  }
  return sum;
}

// Values that a thread takes as one: 16 bytes of them.
template <class Element>
inline constexpr int kPack = 16 / sizeof(Element);

// Calls `add` with what one thread of a block has of the values [begin, end). Which values these are does not depend on
// where they lie in memory, so equal values give equal bits.
template <bool kIsPacked, class Element, class Add>
__device__ __forceinline__ void each_value(const Element* values, int64_t begin, int64_t end, const Add& add) {
  constexpr int pack = kPack<Element>;
  const int64_t packed_end = end - (end - begin) % pack;
  for (int64_t index = begin + threadIdx.x * pack; index < packed_end; index += kThreads * pack) {
    Pack<Element, pack> read;
    if constexpr (kIsPacked) {
      read = *reinterpret_cast<const Pack<Element, pack>*>(values + index);
    } else {
#pragma unroll
      for (int lane = 0; lane < pack; ++lane) read.values[lane] = values[index + lane];
    }
#pragma unroll
    for (int lane = 0; lane < pack; ++lane) add(read.values[lane]);
  }
  for (int64_t index = packed_end + threadIdx.x; index < end; index += kThreads) add(values[index]);
}

// A sum of squares in float32, and beside it what roundings took from it: together as exact as float64 to some units in
// its last place. GPUs but those of data centers do a 64th as many operations in float64.
struct SplitSum {
  float high = 0;
  float low = 0;

  template <class Element>
  __device__ __forceinline__ void add_square(Element element) {
    const float value = load(element);
    const float square = value * value;
    const float sum = high + square;
    const float added = sum - high;
    low += (high - (sum - added)) + (square - added);                                    // Knuth's sum of two
    if constexpr (sizeof(Element) == sizeof(float)) low += fmaf(value, value, -square);  // 0 for values of 16 bits
    high = sum;
  }

  // Whether nothing was out of float32's range: no square too large, and those that are too small for it far below the
  // last place of the sum. Not for NaN, nor where all is zero.
  __device__ __forceinline__ bool is_exact() const { return high >= 0x1p-80f && high < INFINITY; }
};

template <bool kIsPacked, class Element>
__device__ __forceinline__ double thread_sum(const Element* values, int64_t begin, int64_t end) {
  if constexpr (sizeof(Element) < sizeof(double)) {
    SplitSum sum;
    each_value<kIsPacked>(values, begin, end, [&](Element value) { sum.add_square(value); });
    if (sum.is_exact()) return static_cast<double>(sum.high) + sum.low;
  }
  double sum = 0;
  each_value<kIsPacked>(values, begin, end, [&](Element element) {
    const double value = load(element);
    sum = fma(value, value, sum);
  });
  return sum;
}

// What one thread of a block adds up of the values [begin, end) of a tensor.
template <class Element>
__device__ __forceinline__ double thread_sum(const void* data, int64_t begin, int64_t end) {
  const Element* values = static_cast<const Element*>(data);
  return is_packed<Element, kPack<Element>>(values) ? thread_sum<true>(values, begin, end)
                                                    : thread_sum<false>(values, begin, end);
}

__device__ __forceinline__ uint32_t first_chunk(const Table& table, int place) {
  return place == 0 ? 0 : table.chunk_ends[place - 1];
}

__global__ void __launch_bounds__(kThreads) chunk_sums_kernel(const __grid_constant__ Table table) {
  const int place = tensor_of_chunk(table.chunk_ends, table.tensor_count, blockIdx.x);
  const Entry& entry = table.entries[place];
  const int64_t begin = (blockIdx.x - first_chunk(table, place)) * kChunkValues;
  const int64_t end = begin + kChunkValues < entry.count ? begin + kChunkValues : entry.count;
  double sum = 0;
  switch (entry.kind) {
    case ElementKind::kFloat64:
      sum = thread_sum<double>(entry.values, begin, end);
      break;
    case ElementKind::kBFloat16:
      sum = thread_sum<BFloat16>(entry.values, begin, end);
      break;
    case ElementKind::kFloat16:
      sum = thread_sum<Float16>(entry.values, begin, end);
      break;
    default:
      sum = thread_sum<float>(entry.values, begin, end);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) table.sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads) tensor_sums_kernel(const __grid_constant__ Table table) {
  const uint32_t end = table.chunk_ends[blockIdx.x];
  double sum = 0;
  for (uint32_t chunk = first_chunk(table, blockIdx.x) + threadIdx.x; chunk < end; chunk += kThreads) {
    sum += table.sums[chunk];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) *table.entries[blockIdx.x].square = sum;
}

// Collects tensors and launches whenever the table is full.
class Launcher {
 public:
  Launcher(double* sums, cudaStream_t stream) : stream_(stream) {
    table_.sums = sums;
    table_.tensor_count = 0;
  }

  void add(const GradientValues& gradient) {
    if (table_.tensor_count == Table::kMaxTensors) launch_all();
    table_.entries[table_.tensor_count] = {gradient.values, gradient.square, gradient.count, gradient.kind};
    chunks_ += chunk_count(gradient.count);
    table_.chunk_ends[table_.tensor_count] = chunks_;
    ++table_.tensor_count;
  }

  void launch_all() {
    if (table_.tensor_count == 0) return;
    if (chunks_ > 0) launch(chunk_sums_kernel, chunks_, kThreads, stream_, table_);
    launch(tensor_sums_kernel, table_.tensor_count, kThreads, stream_, table_);
    table_.sums += chunks_;
    table_.tensor_count = 0;
    chunks_ = 0;
  }

 private:
  Table table_;
  cudaStream_t stream_;
  uint32_t chunks_ = 0;
};

void gradient_squares_(StableListHandle grads, const Tensor& squares) {
  calls.add();
  const GradientLists lists{grads, squares};
  if (lists.tensors().empty()) return;
  const DeviceScope scope(squares);
  int64_t chunks = 0;
  for (const GradientValues& gradient : lists.tensors()) chunks += chunk_count(gradient.count);
  const Tensor sums = new_contiguous({chunks}, ElementKind::kFloat64, squares);
  Launcher launcher(mutable_data_of<double>(sums), scope.stream());
  for (const GradientValues& gradient : lists.tensors()) launcher.add(gradient);
  launcher.launch_all();
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("gradient_squares_", TORCH_BOX(&burnlike::cuda::gradient_squares_));
}
