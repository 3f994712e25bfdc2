// Mean and variance of columns on the CPU: outputs, threads, and blocks of rows. The arithmetic is in
// isa/batch_norm.inl.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "burnlike/calls.h"
#include "isa/batch_norm.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"batch_moments"};

// Mean and variance of each column, both divided by the number of rows. Each block of rows has its own mean, and the
// blocks are joined in float64 (Chan, Golub & LeVeque 1979, eq. 2.1): in one pass over memory, and yet no digits are
// lost where a mean is large. The blocks depend on the shape alone.
std::tuple<Tensor, Tensor> batch_moments(const Tensor& x_any) {
  calls.add();
  STD_TORCH_CHECK(x_any.dim() >= 1, "batch_moments: expected x [..., d]");
  const Tensor x = as_contiguous(x_any);
  const int64_t width = x.size(x.dim() - 1);
  const int64_t rows = width == 0 ? 0 : x.numel() / width;
  const Tensor mean = new_contiguous({width}, wide_kind(x), x);
  const Tensor variance = new_contiguous({width}, wide_kind(x), x);
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    constexpr int64_t kBlockValues = 16384;
    const int64_t size = std::max<int64_t>(16, kBlockValues / std::max<int64_t>(width, 1));
    const int64_t blocks = (rows + size - 1) / size;
    std::vector<Accumulate> means(blocks * width);
    std::vector<Accumulate> squares(blocks * width);
    const Element* data = data_of<Element>(x);
    const auto moments = batch_norm_kernels()(element).moments;
    const auto run = [&](int64_t first, int64_t last) {
      for (int64_t block = first; block < last; ++block) {
        const int64_t begin = block * size;
        moments(
            data + begin * width, means.data() + block * width, squares.data() + block * width,
            std::min(size, rows - begin), width);
      }
    };
    if (rows * width <= kGrainValues) {
      run(0, blocks);
    } else {
      torch::stable::parallel_for(0, blocks, 1, run);
    }
    std::vector<double> mean_sums(width);
    std::vector<double> square_sums(width);
    for (int64_t block = 0; block < blocks; ++block) {
      const double count = static_cast<double>(std::min(size, rows - block * size));
      for (int64_t column = 0; column < width; ++column) mean_sums[column] += count * means[block * width + column];
    }
    for (int64_t column = 0; column < width; ++column) mean_sums[column] /= static_cast<double>(rows);
    for (int64_t block = 0; block < blocks; ++block) {
      const double count = static_cast<double>(std::min(size, rows - block * size));
      for (int64_t column = 0; column < width; ++column) {
        const double away = means[block * width + column] - mean_sums[column];
        square_sums[column] += squares[block * width + column] + count * away * away;
      }
    }
    Accumulate* mean_data = mutable_data_of<Accumulate>(mean);
    Accumulate* variance_data = mutable_data_of<Accumulate>(variance);
    for (int64_t column = 0; column < width; ++column) {
      mean_data[column] = static_cast<Accumulate>(mean_sums[column]);
      variance_data[column] = static_cast<Accumulate>(square_sums[column] / static_cast<double>(rows));
    }
  });
  return {mean, variance};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) { library.def("batch_moments(Tensor x) -> (Tensor, Tensor)"); }

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("batch_moments", TORCH_BOX(&burnlike::cpu::batch_moments));
}
