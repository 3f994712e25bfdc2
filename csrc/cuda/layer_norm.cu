// Layer normalization on CUDA.
#include <optional>
#include <tuple>

#include "burnlike/calls.h"
#include "norm_launches.h"

namespace burnlike::cuda {

template Normalized normalize<LayerNorm>(
    const Tensor&, const std::optional<Tensor>&, const Tensor&, const std::optional<Tensor>&, double);
template NormGradients norm_gradients<LayerNorm>(
    const Tensor&, const std::optional<Tensor>&, const Tensor&, const Tensor&, double);

namespace {

CallCounter forward_calls{"layer_norm"};
CallCounter backward_calls{"layer_norm_backward"};

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const std::optional<Tensor>& beta, double epsilon) {
  forward_calls.add();
  return normalize<LayerNorm>(x, std::nullopt, gamma, beta, epsilon).y;
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(
    const Tensor& grad, const Tensor& x, const Tensor& gamma, double epsilon) {
  backward_calls.add();
  const auto found = norm_gradients<LayerNorm>(grad, std::nullopt, x, gamma, epsilon);
  return {found.x, found.gamma, found.beta};
}

}  // namespace
}  // namespace burnlike::cuda

STABLE_TORCH_LIBRARY_IMPL(burnlike, CUDA, library) {
  library.impl("layer_norm", TORCH_BOX(&burnlike::cuda::layer_norm));
  library.impl("layer_norm_backward", TORCH_BOX(&burnlike::cuda::layer_norm_backward));
}
