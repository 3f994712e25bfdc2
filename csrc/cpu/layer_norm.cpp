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
  return normalize(&Kernels::layer_norm, x, std::nullopt, gamma, beta, epsilon).y;
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(
    const Tensor& grad, const Tensor& x, const Tensor& gamma, double epsilon) {
  backward_calls.add();
  const auto found = norm_gradients<LayerNorm>(&Kernels::layer_norm, grad, std::nullopt, x, gamma, epsilon);
  return {found.x, found.gamma, found.beta};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("layer_norm", TORCH_BOX(&burnlike::cpu::layer_norm));
  library.impl("layer_norm_backward", TORCH_BOX(&burnlike::cpu::layer_norm_backward));
}
