// A sum and its RMS normalization on the CPU.
#include <torch/csrc/stable/library.h>

#include <optional>
#include <tuple>

#include "burnlike/calls.h"
#include "norms.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"add_rms_norm"};
CallCounter backward_calls{"add_rms_norm_backward"};

std::tuple<Tensor, Tensor> add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& gamma, double epsilon) {
  forward_calls.add();
  const auto found = normalize(rms_norm_kernels(), x, residual, gamma, std::nullopt, epsilon);
  return {found.y, found.sum};
}

std::tuple<Tensor, Tensor> add_rms_norm_backward(
    const Tensor& grad, const std::optional<Tensor>& grad_total, const Tensor& total, const Tensor& gamma,
    double epsilon) {
  backward_calls.add();
  const auto found = norm_gradients<RmsNorm>(rms_norm_kernels(), grad, grad_total, total, gamma, epsilon);
  return {found.x, found.gamma};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("add_rms_norm(Tensor x, Tensor residual, Tensor gamma, float epsilon) -> (Tensor, Tensor)");
  library.def(
      "add_rms_norm_backward(Tensor grad, Tensor? grad_total, Tensor total, Tensor gamma, float epsilon) -> "
      "(Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("add_rms_norm", TORCH_BOX(&burnlike::cpu::add_rms_norm));
  library.impl("add_rms_norm_backward", TORCH_BOX(&burnlike::cpu::add_rms_norm_backward));
}
