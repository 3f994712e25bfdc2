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
  return normalize(rms_norm_kernels(), x, std::nullopt, gamma, std::nullopt, epsilon).y;
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& gamma, double epsilon) {
  backward_calls.add();
  const auto found = norm_gradients<RmsNorm>(rms_norm_kernels(), grad, std::nullopt, x, gamma, epsilon);
  return {found.x, found.gamma};
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("rms_norm(Tensor x, Tensor gamma, float epsilon) -> Tensor");
  library.def("rms_norm_backward(Tensor grad, Tensor x, Tensor gamma, float epsilon) -> (Tensor, Tensor)");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("rms_norm", TORCH_BOX(&burnlike::cpu::rms_norm));
  library.impl("rms_norm_backward", TORCH_BOX(&burnlike::cpu::rms_norm_backward));
}
