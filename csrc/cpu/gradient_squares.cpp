// Sums of squares of many gradients on the CPU. The arithmetic is in isa/gradient_squares.inl.
#include <torch/csrc/stable/library.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "burnlike/calls.h"
#include "burnlike/gradient_squares.h"
#include "isa/gradient_squares.h"
#include "list_ranges.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"gradient_squares_"};

void gradient_squares_(StableListHandle grads, const Tensor& squares) {
  calls.add();
  const GradientLists lists{grads, squares};
  ListRanges ranges(kSquaresTile, lists.tensors().size());
  for (const GradientValues& tensor : lists.tensors()) ranges.add(tensor.count);
  std::vector<double> sums(ranges.units());
  ranges.run([&](size_t index, int64_t begin, int64_t end) {
    const GradientValues& tensor = lists.tensors()[index];
    const SumOfSquares sum_of_squares = gradient_squares_kernels()[static_cast<size_t>(tensor.kind)];
    const char* values = static_cast<const char*>(tensor.values);
    for (; begin < end; begin += kSquaresTile) {
      sums[ranges.first_unit(index) + begin / kSquaresTile] =
          sum_of_squares(values + begin * element_size(tensor.kind), std::min(kSquaresTile, end - begin));
    }
  });
  for (size_t index = 0; index < lists.tensors().size(); ++index) {
    double square = 0.0;
    const int64_t tiles = (lists.tensors()[index].count + kSquaresTile - 1) / kSquaresTile;
    for (int64_t tile = 0; tile < tiles; ++tile) square += sums[ranges.first_unit(index) + tile];
    *lists.tensors()[index].square = square;
  }
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("gradient_squares_(Tensor[] grads, Tensor(a!) squares) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("gradient_squares_", TORCH_BOX(&burnlike::cpu::gradient_squares_));
}
