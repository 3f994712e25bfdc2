// RMS normalization on the CPU.
#include <torch/csrc/stable/library.h>

#include <optional>
#include <tuple>

#include "burnlike/calls.h"
#include "norms.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"rms_norm"};
CallCounter backward_calls{"rms_norm_backward"};

Tensor rms_norm(const Tensor& x, const Tensor& gamma, double epsilon) {
  forward_calls.add();
  return normalize(&Kernels::rms_norm, x, std::nullopt, gamma, std::nullopt, epsilon).y;
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& gamma, double epsilon) {
  backward_calls.add();
  const auto found = norm_gradients<RmsNorm>(&Kernels::rms_norm, grad, std::nullopt, x, gamma, epsilon);
  return {found.x, found.gamma};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("rms_norm", TORCH_BOX(&burnlike::cpu::rms_norm));
  library.impl("rms_norm_backward", TORCH_BOX(&burnlike::cpu::rms_norm_backward));
}
