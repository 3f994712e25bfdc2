// The gradient of a weight that rows were multiplied with, on the CPU.
#include <torch/csrc/stable/library.h>

#include <vector>

#include "burnlike/calls.h"
#include "packed_product.h"

namespace burnlike::cpu {
namespace {

CallCounter calls{"weight_backward"};

// grad^T x: x is packed once, and each thread copies its columns of grad to rows, a part at a time.
Tensor weight_backward(const Tensor& grad_any, const Tensor& x_any) {
  calls.add();
  STD_TORCH_CHECK(
      grad_any.dim() == 2 && x_any.dim() == 2 && grad_any.size(0) == x_any.size(0) &&
          grad_any.is_cpu() == x_any.is_cpu() && element_kind(grad_any) == element_kind(x_any),
      "weight_backward: expected two matrices of as many rows, of one dtype and device");
  const Tensor grad = as_contiguous(grad_any), x = as_contiguous(x_any);
  const int64_t outputs = grad.size(1), width = x.size(1);
  const ElementKind kind = element_kind(grad);
  const Tensor gradient = new_contiguous({outputs, width}, kind, x);
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
        product.run_outer(columns + first, outputs, sums.data(), count);
        for (int64_t row = 0; row < count; ++row) {
          const auto* sum = sums.data() + row * product.stride();
          for (int64_t column = 0; column < width; ++column) {
            result[(first + row) * width + column] = store<Element>(sum[column]);
          }
        }
      }
    });
  });
  return gradient;
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) { library.def("weight_backward(Tensor grad, Tensor x) -> Tensor"); }

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("weight_backward", TORCH_BOX(&burnlike::cpu::weight_backward));
}
