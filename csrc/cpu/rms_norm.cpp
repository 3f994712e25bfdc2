// RMS normalization on the CPU: checks, outputs and threads. The arithmetic is in isa/rms_norm.inl.
#include <torch/csrc/stable/library.h>

#include <tuple>
#include <vector>

#include "burnlike/calls.h"
#include "burnlike/rms_norm_check.h"
#include "kernels.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"rms_norm"};
CallCounter backward_calls{"rms_norm_backward"};

Tensor rms_norm(const Tensor& x_any, const Tensor& gamma_any, double epsilon) {
  forward_calls.add();
  const int64_t rows = rms_norm_rows(x_any, gamma_any);
  const Tensor x = as_contiguous(x_any);
  const Tensor gamma = as_contiguous(gamma_any);
  const Tensor y = new_like(x);
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    std::vector<Accumulate> storage;
    const Accumulate* gamma_data = values_of<Accumulate>(gamma, storage);
    const int64_t width = gamma.size(0);
    const auto forward = kernels().rms_norm(element).forward;
    const Element* x_data = data_of<Element>(x);
    Element* y_data = mutable_data_of<Element>(y);
    for_rows(rows, width, [&](int64_t begin, int64_t end) {
      forward(x_data, gamma_data, y_data, begin, end, width, epsilon);
    });
  });
  return y;
}

std::tuple<Tensor, Tensor> rms_norm_backward(
    const Tensor& grad_any, const Tensor& x_any, const Tensor& gamma_any, double epsilon) {
  backward_calls.add();
  const int64_t rows = rms_norm_rows(x_any, gamma_any);
  check_rms_norm_grad(grad_any, x_any);
  const Tensor grad = as_contiguous(grad_any);
  const Tensor x = as_contiguous(x_any);
  const Tensor gamma = as_contiguous(gamma_any);
  const Tensor grad_x = new_like(x);
  const Tensor grad_gamma = new_like(gamma);
  const int64_t width = gamma.size(0);
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    std::vector<Accumulate> storage;
    const Accumulate* gamma_data = values_of<Accumulate>(gamma, storage);
    const auto backward = kernels().rms_norm(element).backward;
    const Element* grad_data = data_of<Element>(grad);
    const Element* x_data = data_of<Element>(x);
    Element* grad_x_data = mutable_data_of<Element>(grad_x);
    const auto sums = sums_over_rows<Accumulate>(rows, width, [&](Accumulate* sum, int64_t begin, int64_t end) {
      backward(grad_data, x_data, gamma_data, grad_x_data, sum, begin, end, width, epsilon);
    });
    store_values(sums.data(), grad_gamma);
  });
  return {grad_x, grad_gamma};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("rms_norm", TORCH_BOX(&burnlike::cpu::rms_norm));
  library.impl("rms_norm_backward", TORCH_BOX(&burnlike::cpu::rms_norm_backward));
}
