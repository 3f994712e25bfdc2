// What RMS and layer normalization share on the CPU: threads. The arithmetic is in isa/norms.inl.
#pragma once

#include <optional>
#include <vector>

#include "burnlike/norm_tensors.h"
#include "isa/norms.h"
#include "rows.h"

namespace burnlike::cpu {

using NormTable = PerElement<NormKernels>;

inline Normalized normalize(
    const NormTable& norm, const Tensor& x, const std::optional<Tensor>& residual, const Tensor& gamma,
    const std::optional<Tensor>& beta, double epsilon) {
  const int64_t rows = check_norm(x, residual, gamma, beta);
  const NormForwardTensors tensors(x, residual, gamma, beta, as_contiguous);
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    std::vector<Accumulate> gamma_storage;
    std::vector<Accumulate> beta_storage;
    const Accumulate* gamma_data = values_of<Accumulate>(tensors.gamma, gamma_storage);
    const Accumulate* beta_data = tensors.beta ? values_of<Accumulate>(*tensors.beta, beta_storage) : nullptr;
    const auto pass = tensors.pass<Element>(gamma_data, beta_data, epsilon);
    const auto forward = norm(element).forward;
    for_rows(rows, pass.width, [&](int64_t begin, int64_t end) { forward(pass, begin, end); });
  });
  return tensors.results();
}

template <class Norm>
NormGradients norm_gradients(
    const NormTable& norm, const Tensor& grad, const std::optional<Tensor>& grad_sum, const Tensor& x,
    const Tensor& gamma, double epsilon) {
  const int64_t rows = check_norm_backward(grad, grad_sum, x, gamma);
  const NormBackwardTensors<Norm> tensors(grad, grad_sum, x, gamma, as_contiguous);
  with_element_type(element_kind(x), [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    std::vector<Accumulate> storage;
    const Accumulate* gamma_data = values_of<Accumulate>(tensors.gamma, storage);
    const auto pass = tensors.template pass<Element>(gamma_data, epsilon);
    const auto backward = norm(element).backward;
    const int64_t width = pass.width * (Norm::kCentered ? 2 : 1);
    const auto sums = sums_over_rows<Accumulate>(
        rows, width, [&](Accumulate* sum, int64_t begin, int64_t end) { backward(pass, sum, begin, end); });
    store_values(sums.data(), tensors.grad_gamma);
    if (Norm::kCentered) store_values(sums.data() + pass.width, tensors.grad_beta);
  });
  return tensors.results();
}

}  // namespace burnlike::cpu
