// RMS and layer normalization on CUDA, for the ops. `Norm` is RmsNorm, defined in rms_norm.cu, or LayerNorm, defined in
// layer_norm.cu: each by norm_kernels.h.
#pragma once

#include <optional>

#include "burnlike/norm_tensors.h"

namespace burnlike::cuda {

template <class Norm>
Normalized normalize(
    const Tensor& x, const std::optional<Tensor>& residual, const Tensor& gamma, const std::optional<Tensor>& beta,
    double epsilon);

template <class Norm>
NormGradients norm_gradients(
    const Tensor& grad, const std::optional<Tensor>& grad_sum, const Tensor& x, const Tensor& gamma, double epsilon);

}  // namespace burnlike::cuda
