// RMS normalization on CUDA.
#include <optional>
#include <tuple>

#include "burnlike/calls.h"
#include "norm_launches.h"

namespace burnlike::cuda {

template Normalized normalize<RmsNorm>(
    const Tensor&, const std::optional<Tensor>&, const Tensor&, const std::optional<Tensor>&, double);
template NormGradients norm_gradients<RmsNorm>(
    const Tensor&, const std::optional<Tensor>&, const Tensor&, const Tensor&, double);

namespace {

CallCounter forward_calls{"rms_norm"};
CallCounter backward_calls{"rms_norm_backward"};

Tensor rms_norm(const Tensor& x, const Tensor& gamma, double epsilon) {
  forward_calls.add();
  return normalize<RmsNorm>(x, std::nullopt, gamma, std::nullopt, epsilon).y;
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& gamma, double epsilon) {
  backward_calls.add();
  const auto found = norm_gradients<RmsNorm>(grad, std::nullopt, x, gamma, epsilon);
  return {found.x, found.gamma};
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("rms_norm", TORCH_BOX(&burnlike::cuda::rms_norm));
  library.impl("rms_norm_backward", TORCH_BOX(&burnlike::cuda::rms_norm_backward));
}
