// Layer normalization on the CPU.
#include <torch/csrc/stable/library.h>

#include <optional>
#include <tuple>

#include "burnlike/calls.h"
#include "norms.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"layer_norm"};
CallCounter backward_calls{"layer_norm_backward"};

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const std::optional<Tensor>& beta, double epsilon) {
  forward_calls.add();
  return normalize(layer_norm_kernels(), x, std::nullopt, gamma, beta, epsilon).y;
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(
    const Tensor& grad, const Tensor& x, const Tensor& gamma, double epsilon) {
  backward_calls.add();
  const auto found = norm_gradients<LayerNorm>(layer_norm_kernels(), grad, std::nullopt, x, gamma, epsilon);
  return {found.x, found.gamma, found.beta};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("layer_norm(Tensor x, Tensor gamma, Tensor? beta, float epsilon) -> Tensor");
  library.def("layer_norm_backward(Tensor grad, Tensor x, Tensor gamma, float epsilon) -> (Tensor, Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("layer_norm", TORCH_BOX(&burnlike::cpu::layer_norm));
  library.impl("layer_norm_backward", TORCH_BOX(&burnlike::cpu::layer_norm_backward));
}
