// gelu(x + bias) on the CPU: checks, outputs and threads. The arithmetic is in isa/bias_gelu.inl.
#include <torch/csrc/stable/library.h>

#include <string>
#include <tuple>
#include <vector>

#include "burnlike/approximate.h"
#include "burnlike/calls.h"
#include "burnlike/row_tensor.h"
#include "burnlike/rows_check.h"
#include "isa/bias_gelu.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"bias_gelu"};
CallCounter backward_calls{"bias_gelu_backward"};

const PerElement<BiasGeluKernels>& table(const std::string& approximate) {
  if (is_sigmoid(approximate)) return sigmoid_bias_gelu_kernels();
  return is_tanh(approximate) ? tanh_bias_gelu_kernels() : bias_gelu_kernels();
}

Tensor bias_gelu(const Tensor& x_any, const Tensor& bias_any, const std::string& approximate) {
  forward_calls.add();
  const auto& kernels = table(approximate);
  const int64_t rows = weighted_rows(x_any, bias_any);
  const RowTensor x(x_any);
  const Tensor bias = as_contiguous(bias_any);
  const Tensor y = new_like(x_any);
  with_element_type(element_kind(x_any), [&](auto element) {
    using Element = decltype(element);
    std::vector<accumulate_t<Element>> storage;
    const auto* biases = values_of<accumulate_t<Element>>(bias, storage);
    const RowPlaces<const Element> places = x.places<Element>();
    Element* y_data = mutable_data_of<Element>(y);
    const int64_t width = bias.size(0);
    const auto forward = kernels(element).forward;
    for_rows(rows, width, [&](int64_t begin, int64_t end) { forward(places, biases, y_data, begin, end, width); });
  });
  return y;
}

std::tuple<Tensor, Tensor> bias_gelu_backward(
    const Tensor& grad_any, const Tensor& x_any, const Tensor& bias_any, const std::string& approximate) {
  backward_calls.add();
  const auto& kernels = table(approximate);
  const int64_t rows = weighted_rows(x_any, bias_any);
  check_alike(grad_any, x_any);
  const RowTensor grad(grad_any);
  const RowTensor x(x_any);
  const Tensor bias = as_contiguous(bias_any);
  const Tensor grad_x = new_like(x_any);
  const Tensor grad_bias = new_like(bias);
  with_element_type(element_kind(x_any), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    std::vector<Accumulate> storage;
    const Accumulate* biases = values_of<Accumulate>(bias, storage);
    const RowPlaces<const Element> grad_places = grad.places<Element>();
    const RowPlaces<const Element> x_places = x.places<Element>();
    Element* grad_x_data = mutable_data_of<Element>(grad_x);
    const int64_t width = bias.size(0);
    const auto backward = kernels(element).backward;
    const auto sums = sums_over_rows<Accumulate>(rows, width, [&](Accumulate* sum, int64_t begin, int64_t end) {
      backward(grad_places, x_places, biases, grad_x_data, sum, begin, end, width);
    });
    store_values(sums.data(), grad_bias);
  });
  return {grad_x, grad_bias};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("bias_gelu(Tensor x, Tensor bias, str approximate) -> Tensor");
  library.def("bias_gelu_backward(Tensor grad, Tensor x, Tensor bias, str approximate) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("bias_gelu", TORCH_BOX(&burnlike::cpu::bias_gelu));
  library.impl("bias_gelu_backward", TORCH_BOX(&burnlike::cpu::bias_gelu_backward));
}
