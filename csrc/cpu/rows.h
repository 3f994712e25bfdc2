// What ops over the rows of contiguous tensors share: threads, weights in the type that is computed in, and sums over
// rows.
#pragma once

#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <vector>

#include "burnlike/tensors.h"

namespace burnlike::cpu {

// Values below which a second thread costs more than it saves.
inline constexpr int64_t kGrainValues = 32768;

// The type that is computed in: float64 for float64, else float32.
inline ElementKind wide_kind(const Tensor& x) {
  return element_kind(x) == ElementKind::kFloat64 ? ElementKind::kFloat64 : ElementKind::kFloat32;
}

// Calls `run(begin, end)` for ranges of `rows` rows of `width` values, in torch's threads.
template <class Run>
void for_rows(int64_t rows, int64_t width, const Run& run) {
  if (rows == 0) return;
  if (rows * width <= kGrainValues) return run(0, rows);
  torch::stable::parallel_for(0, rows, std::max<int64_t>(1, kGrainValues / width), run);
}

// A contiguous tensor as numbers of the accumulation type: its own, or converted into `storage`.
template <class Accumulate>
const Accumulate* values_of(const Tensor& tensor, std::vector<Accumulate>& storage) {
  if (element_kind(tensor) == kind_of<Accumulate>) return data_of<Accumulate>(tensor);
  storage.resize(tensor.numel());
  with_element_type(element_kind(tensor), [&](auto element) {
    using Element = decltype(element);
    const Element* values = data_of<Element>(tensor);
    for (size_t index = 0; index < storage.size(); ++index) storage[index] = Accumulate(load(values[index]));
  });
  return storage.data();
}

// Stores numbers of the accumulation type in a contiguous tensor.
template <class Accumulate>
void store_values(const Accumulate* values, const Tensor& tensor) {
  with_element_type(element_kind(tensor), [&](auto element) {
    using Element = decltype(element);
    Element* stored = mutable_data_of<Element>(tensor);
    const int64_t count = tensor.numel();
    for (int64_t index = 0; index < count; ++index) {
      stored[index] = converted<Element>(values[index]);
    }
  });
}

// Sums over rows, of `width` values: `run(sum, begin, end)` adds those of a range of rows to `sum`. Rows are summed in
// blocks whose number depends on the shape alone, and the blocks in their order: the bits are the same for any number
// of threads. The sum is in the first `width` values of the result.
template <class Accumulate, class Run>
std::vector<Accumulate> sums_over_rows(int64_t rows, int64_t width, const Run& run) {
  constexpr int64_t kBlockRows = 16;
  constexpr int64_t kMaxBlocks = 64;
  const int64_t blocks = std::clamp<int64_t>(rows / kBlockRows, 1, kMaxBlocks);
  std::vector<Accumulate> sums(blocks * width);
  const auto run_blocks = [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      run(sums.data() + block * width, rows * block / blocks, rows * (block + 1) / blocks);
    }
  };
  if (rows * width <= kGrainValues) {
    run_blocks(0, blocks);
  } else {
    torch::stable::parallel_for(0, blocks, 1, run_blocks);
  }
  for (int64_t block = 1; block < blocks; ++block) {
    for (int64_t column = 0; column < width; ++column) sums[column] += sums[block * width + column];
  }
  return sums;
}

}  // namespace burnlike::cpu
