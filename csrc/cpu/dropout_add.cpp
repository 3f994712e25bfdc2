// residual + dropout(x) on the CPU: checks, outputs and threads. The arithmetic is in isa/dropout_add.inl.
#include <torch/csrc/stable/library.h>

#include "burnlike/calls.h"
#include "burnlike/dropout_add_check.h"
#include "isa/dropout_add.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"dropout_add"};
CallCounter backward_calls{"dropout_add_backward"};

template <class Accumulate>
Dropping<Accumulate> dropping_of(const Tensor& seed, double probability) {
  return dropping<Accumulate>(static_cast<uint64_t>(*data_of<int64_t>(seed)), probability);
}

Tensor dropout_add(const Tensor& x_any, const Tensor& residual_any, double probability, const Tensor& seed) {
  forward_calls.add();
  check_dropout_add(x_any, residual_any, probability, seed);
  const Tensor x = as_contiguous(x_any);
  const Tensor residual = as_contiguous(residual_any);
  const Tensor y = new_like(residual);
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    const auto& table = dropout_add_kernels()(element);
    const Dropping<Accumulate> drop = dropping_of<Accumulate>(seed, probability);
    const auto run = [&](auto wide, const auto kernel) {
      using Wide = decltype(wide);
      const Element* x_data = data_of<Element>(x);
      const Wide* residual_data = data_of<Wide>(residual);
      Wide* y_data = mutable_data_of<Wide>(y);
      for_rows(
          x.numel(), 1, [&](int64_t begin, int64_t end) { kernel(x_data, residual_data, y_data, begin, end, drop); });
    };
    if (element_kind(residual) == element_kind(x)) return run(Element{}, table.forward);
    run(Accumulate{}, table.mixed_forward);
  });
  return y;
}

Tensor dropout_add_backward(
    const Tensor& grad_any, double probability, const Tensor& seed, torch::headeronly::ScalarType dtype) {
  const ElementKind kind = element_kind(static_cast<int32_t>(dtype));
  backward_calls.add();
  check_dropout(probability, seed, grad_any);
  check_wide_kind(element_kind(grad_any), kind);
  const Tensor grad = as_contiguous(grad_any);
  const Tensor grad_x = new_like(grad, kind);
  with_element_type(kind, [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    const auto& table = dropout_add_kernels()(element);
    const Dropping<Accumulate> drop = dropping_of<Accumulate>(seed, probability);
    const auto run = [&](auto wide, const auto kernel) {
      using Wide = decltype(wide);
      const Wide* grad_data = data_of<Wide>(grad);
      Element* grad_x_data = mutable_data_of<Element>(grad_x);
      for_rows(grad.numel(), 1, [&](int64_t begin, int64_t end) { kernel(grad_data, grad_x_data, begin, end, drop); });
    };
    if (element_kind(grad) == kind) return run(Element{}, table.backward);
    run(Accumulate{}, table.mixed_backward);
  });
  return grad_x;
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("dropout_add(Tensor x, Tensor residual, float probability, Tensor seed) -> Tensor");
  library.def("dropout_add_backward(Tensor grad, float probability, Tensor seed, ScalarType dtype) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("dropout_add", TORCH_BOX(&burnlike::cpu::dropout_add));
  library.impl("dropout_add_backward", TORCH_BOX(&burnlike::cpu::dropout_add_backward));
}
