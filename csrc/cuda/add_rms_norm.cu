// A sum and its RMS normalization on CUDA.
#include <torch/csrc/stable/library.h>

#include <optional>
#include <tuple>

#include "burnlike/calls.h"
#include "norms.h"

namespace burnlike::cuda {
namespace {

CallCounter forward_calls{"add_rms_norm"};
CallCounter backward_calls{"add_rms_norm_backward"};

std::tuple<Tensor, Tensor> add_rms_norm(const Tensor& x, const Tensor& residual, const Tensor& gamma, double epsilon) {
  forward_calls.add();
  const auto found = normalize<RmsNorm>(x, residual, gamma, std::nullopt, epsilon);
  return {found.y, found.sum};
}

std::tuple<Tensor, Tensor> add_rms_norm_backward(
    const Tensor& grad, const std::optional<Tensor>& grad_total, const Tensor& total, const Tensor& gamma,
    double epsilon) {
  backward_calls.add();
  const auto found = norm_gradients<RmsNorm>(grad, grad_total, total, gamma, epsilon);
  return {found.x, found.gamma};
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("add_rms_norm", TORCH_BOX(&burnlike::cuda::add_rms_norm));
  library.impl("add_rms_norm_backward", TORCH_BOX(&burnlike::cuda::add_rms_norm_backward));
}
