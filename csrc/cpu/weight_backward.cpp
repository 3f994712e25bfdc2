// The gradient of a weight that rows were multiplied with, on the CPU.
#include <torch/csrc/stable/library.h>

#include <vector>

#include "burnlike/calls.h"
#include "packed_product.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"weight_backward"};

// grad^T x, in memory by columns or by rows: x is packed once, and each thread copies its columns of grad to rows, a
// part at a time.
Tensor weight_backward(const Tensor& grad_any, const Tensor& x_any, bool by_columns) {
  calls.add();
  STD_TORCH_CHECK(
      grad_any.dim() == 2 && x_any.dim() == 2 && grad_any.size(0) == x_any.size(0) &&
          grad_any.is_cpu() == x_any.is_cpu() && element_kind(grad_any) == element_kind(x_any),
      "weight_backward: expected two matrices of as many rows, of one dtype and device");
  const Tensor grad = as_contiguous(grad_any), x = as_contiguous(x_any);
  const int64_t outputs = grad.size(1), width = x.size(1);
  const ElementKind kind = element_kind(grad);
  const int64_t down = by_columns ? 1 : width, right = by_columns ? outputs : 1;
  const Tensor gradient = new_strided({outputs, width}, {down, right}, kind, x);
  with_element_type(kind, [&](auto element) {
    using Element = decltype(element);
    const Element* columns = data_of<Element>(grad);
    Element* result = mutable_data_of<Element>(gradient);
    const PackedProduct<Element> product(x, 0, true);
    // As many blocks for each thread, each of about as many rows.
    const int64_t threads = torch::stable::get_num_threads();
    const int64_t blocks = ((outputs + kOuterRows - 1) / kOuterRows + threads - 1) / threads * threads;
    for_rows(blocks, kOuterRows * width * x.size(0), [&](int64_t begin, int64_t end) {
      std::vector<accumulate_t<Element>> sums(kOuterRows * product.stride());
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = outputs * block / blocks;
        const int64_t count = outputs * (block + 1) / blocks - first;
        if (count == 0 || width == 0) continue;  // fewer columns than threads
        product.run_outer(columns + first, outputs, sums.data(), count);
        const auto* sum = sums.data();
        for (int64_t column = 0; by_columns && column < width; ++column) {
          Element* target = result + column * outputs + first;
          for (int64_t row = 0; row < count; ++row) target[row] = store<Element>(sum[row * product.stride() + column]);
        }
        for (int64_t row = 0; !by_columns && row < count; ++row, sum += product.stride()) {
          Element* target = result + (first + row) * width;
          for (int64_t column = 0; column < width; ++column) target[column] = store<Element>(sum[column]);
        }
      }
    });
  });
  return gradient;
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("weight_backward(Tensor grad, Tensor x, bool by_columns) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("weight_backward", TORCH_BOX(&burnlike::cpu::weight_backward));
}
