// How RMS and layer normalization check their tensors and start their kernels: the definitions of norms.h.
#pragma once

#include "burnlike/rows_check.h"
#include "norm_kernels.h"

namespace burnlike::cuda {

// Calls `function` with values of the element types of x and gamma.
template <class Function>
void with_norm_types(const Tensor& x, const Tensor& gamma, Function&& function) {
  const ElementKind kind = element_kind(x);
  with_element_type(kind, [&](auto element) {
    if (element_kind(gamma) == kind) {
      function(element, element);
    } else {
      function(element, float{});
    }
  });
}

template <class Norm>
Normalized normalize(
    const Tensor& x_any, const std::optional<Tensor>& residual_any, const Tensor& gamma_any,
    const std::optional<Tensor>& beta_any, double epsilon) {
  const int64_t rows = weighted_rows(x_any, gamma_any);
  check_alike(residual_any, x_any);
  check_alike(beta_any, gamma_any);
  const DeviceScope scope(x_any);
  const int64_t width = gamma_any.size(0);
  const int packs = packs_of_thread(width, element_kind(x_any), 4);
  const Tensor x = packed(x_any, packs);
  const Tensor gamma = packed(gamma_any, packs);
  const Tensor residual = residual_any ? packed(*residual_any, packs) : x;
  const Tensor beta = beta_any ? packed(*beta_any, packs) : gamma;
  const Tensor y = new_like(x);
  const Tensor sum = residual_any ? new_like(x) : x;
  if (rows == 0) return {y, sum};
  with_norm_types(x, gamma, [&](auto element, auto weight) {
    using Element = decltype(element);
    using Weight = decltype(weight);
    NormForward<Element, Weight> pass{};
    pass.x = data_of<Element>(x);
    pass.gamma = data_of<Weight>(gamma);
    pass.y = mutable_data_of<Element>(y);
    pass.width = width;
    pass.epsilon = static_cast<accumulate_t<Element>>(epsilon);
    if (beta_any) pass.beta = data_of<Weight>(beta);
    if (residual_any) {
      pass.residual = data_of<Element>(residual);
      pass.sum = mutable_data_of<Element>(sum);
    }
    auto kernel = plain_forward_kernel<Norm, Element, Weight>;
    if constexpr (sizeof(Element) < sizeof(double)) {
      if (packs == 1) kernel = packed_forward_kernel<Norm, 1, Element, Weight>;
      if (packs == 2) kernel = packed_forward_kernel<Norm, 2, Element, Weight>;
      if (packs == 4) kernel = packed_forward_kernel<Norm, 4, Element, Weight>;
    }
    launch(kernel, row_blocks(rows), row_pack_threads(width, element_kind(x), packs), scope.stream(), pass, rows);
  });
  return {y, sum};
}

// The most packs that a thread of a backward pass has registers for.
template <class Norm>
constexpr int most_backward_packs(int64_t element_bytes) {
  return Norm::kCentered && element_bytes == 2 ? 1 : 2;
}

template <class Norm>
NormGradients norm_gradients(
    const Tensor& grad_any, const std::optional<Tensor>& grad_sum_any, const Tensor& x_any, const Tensor& gamma_any,
    double epsilon) {
  const int64_t rows = weighted_rows(x_any, gamma_any);
  check_alike(grad_any, x_any);
  check_alike(grad_sum_any, x_any);
  const DeviceScope scope(x_any);
  const int64_t width = gamma_any.size(0);
  const ElementKind kind = element_kind(x_any);
  const int packs = packs_of_thread(width, kind, most_backward_packs<Norm>(element_size(kind)));
  const Tensor grad = packed(grad_any, packs);
  const Tensor grad_sum = grad_sum_any ? packed(*grad_sum_any, packs) : grad;
  const Tensor x = packed(x_any, packs);
  const Tensor gamma = packed(gamma_any, packs);
  const Tensor grad_x = new_like(x);
  const Tensor grad_gamma = new_like(gamma);
  const Tensor grad_beta = Norm::kCentered ? new_like(gamma) : grad_gamma;
  if (width == 0) return {grad_x, grad_gamma, grad_beta};
  with_norm_types(x, gamma, [&](auto element, auto weight) {
    using Element = decltype(element);
    using Weight = decltype(weight);
    using Accumulate = accumulate_t<Element>;
    NormBackward<Element, Weight> pass{};
    pass.grad = data_of<Element>(grad);
    if (grad_sum_any) pass.grad_sum = data_of<Element>(grad_sum);
    pass.x = data_of<Element>(x);
    pass.gamma = data_of<Weight>(gamma);
    pass.grad_x = mutable_data_of<Element>(grad_x);
    pass.width = width;
    pass.epsilon = static_cast<Accumulate>(epsilon);
    auto kernel = plain_backward_kernel<Norm, Element, Weight>;
    if constexpr (sizeof(Element) < sizeof(double)) {
      if (packs == 1) kernel = packed_backward_kernel<Norm, 1, Element, Weight>;
      constexpr int most = most_backward_packs<Norm>(sizeof(Element));
      if (packs == most) kernel = packed_backward_kernel<Norm, most, Element, Weight>;
    }
    const int threads = row_pack_threads(width, kind, packs);
    const int64_t runs = row_runs(rows, threads);
    const Tensor partials = new_contiguous({runs, (Norm::kCentered ? 2 : 1) * width}, kind_of<Accumulate>, x);
    Accumulate* partial_data = mutable_data_of<Accumulate>(partials);
    launch(kernel, static_cast<uint32_t>(runs), threads, scope.stream(), pass, partial_data, rows);
    Weight* beta_data = Norm::kCentered ? mutable_data_of<Weight>(grad_beta) : nullptr;
    add_columns(partial_data, mutable_data_of<Weight>(grad_gamma), beta_data, runs, width, scope.stream());
  });
  return {grad_x, grad_gamma, grad_beta};
}

}  // namespace burnlike::cuda
