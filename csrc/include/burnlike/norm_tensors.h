// The tensors of RMS and layer normalization, checked and ready for a kernel. For CPU and CUDA.
#pragma once

#include <optional>

#include "norms.h"
#include "row_tensor.h"
#include "rows_check.h"

namespace burnlike {

struct Normalized {
  Tensor y;
  Tensor sum;  // x + residual; x without a residual
};

struct NormGradients {
  Tensor x;
  Tensor gamma;
  Tensor beta;  // that of gamma in RMS normalization
};

// The number of rows.
inline int64_t check_norm(
    const Tensor& x, const std::optional<Tensor>& residual, const Tensor& gamma, const std::optional<Tensor>& beta) {
  const int64_t rows = weighted_rows(x, gamma);
  check_alike(residual, x);
  check_alike(beta, gamma);
  return rows;
}

inline int64_t check_norm_backward(
    const Tensor& grad, const std::optional<Tensor>& grad_sum, const Tensor& x, const Tensor& gamma) {
  const int64_t rows = weighted_rows(x, gamma);
  check_alike(grad, x);
  check_alike(grad_sum, x);
  return rows;
}

// Those of a forward pass; `usable(tensor)` is the tensor itself where kernels can read it, else a copy.
struct NormForwardTensors {
  template <class Usable>
  NormForwardTensors(
      const Tensor& x_any, const std::optional<Tensor>& residual_any, const Tensor& gamma_any,
      const std::optional<Tensor>& beta_any, const Usable& usable)
      : x(usable(x_any)), gamma(usable(gamma_any)), y(new_like(x)), sum(residual_any ? new_like(x) : x) {
    if (residual_any) residual = usable(*residual_any);
    if (beta_any) beta = usable(*beta_any);
  }

  // What a kernel gets, with the weights in its type.
  template <class Element, class Weight>
  NormForward<Element, Weight> pass(const Weight* gamma_data, const Weight* beta_data, double epsilon) const {
    NormForward<Element, Weight> pass{};
    pass.x = data_of<Element>(x);
    pass.gamma = gamma_data;
    pass.beta = beta_data;
    pass.y = mutable_data_of<Element>(y);
    pass.width = gamma.size(0);
    pass.x_stride = row_stride(x);
    pass.epsilon = static_cast<accumulate_t<Element>>(epsilon);
    if (residual) {
      pass.residual_stride = row_stride(*residual);
      pass.residual = data_of<Element>(*residual);
      pass.sum = mutable_data_of<Element>(sum);
    }
    return pass;
  }

  Normalized results() const { return {y, sum}; }

  Tensor x, gamma, y, sum;
  std::optional<Tensor> residual, beta;
};

// Those of a backward pass.
template <class Norm>
struct NormBackwardTensors {
  template <class Usable>
  NormBackwardTensors(
      const Tensor& grad_any, const std::optional<Tensor>& grad_sum_any, const Tensor& x_any, const Tensor& gamma_any,
      const Usable& usable)
      : grad(usable(grad_any)),
        x(usable(x_any)),
        gamma(usable(gamma_any)),
        grad_x(new_like(x)),
        grad_gamma(new_like(gamma)),
        grad_beta(Norm::kCentered ? new_like(gamma) : grad_gamma) {
    if (grad_sum_any) grad_sum = usable(*grad_sum_any);
  }

  template <class Element, class Weight>
  NormBackward<Element, Weight> pass(const Weight* gamma_data, double epsilon) const {
    NormBackward<Element, Weight> pass{};
    pass.grad = data_of<Element>(grad);
    pass.grad_stride = row_stride(grad);
    if (grad_sum) {
      pass.grad_sum = data_of<Element>(*grad_sum);
      pass.grad_sum_stride = row_stride(*grad_sum);
    }
    pass.x = data_of<Element>(x);
    pass.gamma = gamma_data;
    pass.grad_x = mutable_data_of<Element>(grad_x);
    pass.width = gamma.size(0);
    pass.x_stride = row_stride(x);
    pass.epsilon = static_cast<accumulate_t<Element>>(epsilon);
    return pass;
  }

  NormGradients results() const { return {grad_x, grad_gamma, grad_beta}; }

  Tensor grad, x, gamma, grad_x, grad_gamma, grad_beta;
  std::optional<Tensor> grad_sum;
};

}  // namespace burnlike
