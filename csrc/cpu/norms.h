// What RMS and layer normalization share on the CPU: checks, outputs and threads. The arithmetic is in isa/norms.inl.
#pragma once

#include <optional>
#include <vector>

#include "burnlike/rows_check.h"
#include "kernels.h"
#include "rows.h"

namespace burnlike::cpu {

using NormTable = PerElement<NormKernels> Kernels::*;

struct Normalized {
  Tensor y;
  Tensor sum;  // x + residual; x without a residual
};

inline Normalized normalize(
    NormTable norm, const Tensor& x_any, const std::optional<Tensor>& residual_any, const Tensor& gamma_any,
    const std::optional<Tensor>& beta_any, double epsilon) {
  const int64_t rows = weighted_rows(x_any, gamma_any);
  check_alike(residual_any, x_any);
  check_alike(beta_any, gamma_any);
  const Tensor x = as_contiguous(x_any);
  const Tensor gamma = as_contiguous(gamma_any);
  const Tensor residual = residual_any ? as_contiguous(*residual_any) : x;
  const Tensor beta = beta_any ? as_contiguous(*beta_any) : gamma;
  const Tensor y = new_like(x);
  const Tensor sum = residual_any ? new_like(x) : x;
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    std::vector<accumulate_t<Element>> gamma_storage;
    std::vector<accumulate_t<Element>> beta_storage;
    CpuNormForward<Element> pass{};
    pass.x = data_of<Element>(x);
    pass.gamma = values_of<accumulate_t<Element>>(gamma, gamma_storage);
    pass.y = mutable_data_of<Element>(y);
    pass.width = gamma.size(0);
    pass.epsilon = static_cast<accumulate_t<Element>>(epsilon);
    if (beta_any) pass.beta = values_of<accumulate_t<Element>>(beta, beta_storage);
    if (residual_any) {
      pass.residual = data_of<Element>(residual);
      pass.sum = mutable_data_of<Element>(sum);
    }
    const auto forward = (kernels().*norm)(element).forward;
    for_rows(rows, pass.width, [&](int64_t begin, int64_t end) { forward(pass, begin, end); });
  });
  return {y, sum};
}

struct NormGradients {
  Tensor x;
  Tensor gamma;
  Tensor beta;  // that of gamma in RMS normalization
};

template <class Norm>
NormGradients norm_gradients(
    NormTable norm, const Tensor& grad_any, const std::optional<Tensor>& grad_sum_any, const Tensor& x_any,
    const Tensor& gamma_any, double epsilon) {
  const int64_t rows = weighted_rows(x_any, gamma_any);
  check_alike(grad_any, x_any);
  check_alike(grad_sum_any, x_any);
  const Tensor grad = as_contiguous(grad_any);
  const Tensor grad_sum = grad_sum_any ? as_contiguous(*grad_sum_any) : grad;
  const Tensor x = as_contiguous(x_any);
  const Tensor gamma = as_contiguous(gamma_any);
  const Tensor grad_x = new_like(x);
  const Tensor grad_gamma = new_like(gamma);
  const Tensor grad_beta = Norm::kCentered ? new_like(gamma) : grad_gamma;
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    std::vector<Accumulate> storage;
    CpuNormBackward<Element> pass{};
    pass.grad = data_of<Element>(grad);
    if (grad_sum_any) pass.grad_sum = data_of<Element>(grad_sum);
    pass.x = data_of<Element>(x);
    pass.gamma = values_of<Accumulate>(gamma, storage);
    pass.grad_x = mutable_data_of<Element>(grad_x);
    pass.width = gamma.size(0);
    pass.epsilon = static_cast<Accumulate>(epsilon);
    const auto backward = (kernels().*norm)(element).backward;
    const int64_t width = pass.width * (Norm::kCentered ? 2 : 1);
    const auto sums = sums_over_rows<Accumulate>(
        rows, width, [&](Accumulate* sum, int64_t begin, int64_t end) { backward(pass, sum, begin, end); });
    store_values(sums.data(), grad_gamma);
    if (Norm::kCentered) store_values(sums.data() + pass.width, grad_beta);
  });
  return {grad_x, grad_gamma, grad_beta};
}

}  // namespace burnlike::cpu
