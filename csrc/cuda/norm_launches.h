// How RMS and layer normalization start their kernels: the definitions of norms.h.
#pragma once

#include "norm_shifted_kernels.h"

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
    const Tensor& x, const std::optional<Tensor>& residual, const Tensor& gamma, const std::optional<Tensor>& beta,
    double epsilon) {
  const int64_t rows = check_norm(x, residual, gamma, beta);
  const DeviceScope scope(x);
  const int64_t width = gamma.size(0);
  const int packs = packs_of_thread(width, element_kind(x), 4);
  const NormForwardTensors tensors(
      x, residual, gamma, beta, [packs](const Tensor& any) { return with_packed_rows(any, packs); });
  if (rows == 0) return tensors.results();
  with_norm_types(x, gamma, [&](auto element, auto weight) {
    using Element = decltype(element);
    using Weight = decltype(weight);
    const Weight* beta_data = tensors.beta ? data_of<Weight>(*tensors.beta) : nullptr;
    const auto pass = tensors.pass<Element>(data_of<Weight>(tensors.gamma), beta_data, epsilon);
    auto kernel = shifted_forward_kernel<Norm, Element, Weight>;
    if constexpr (sizeof(Element) < sizeof(double)) {
      if (packs == 1) kernel = packed_forward_kernel<Norm, 1, Element, Weight>;
      if (packs == 2) kernel = packed_forward_kernel<Norm, 2, Element, Weight>;
      if (packs == 4) kernel = packed_forward_kernel<Norm, 4, Element, Weight>;
    }
    const dim3 block = row_block(row_pack_threads(width, element_kind(x), packs));
    launch(kernel, row_blocks(rows, block), block, scope.stream(), pass, rows);
  });
  return tensors.results();
}

// The most packs that a thread of a backward pass has registers for.
template <class Norm>
constexpr int most_backward_packs(int64_t element_bytes) {
  return Norm::kCentered && element_bytes == 2 ? 1 : 2;
}

// Threads from which each has two packs rather than one. With values of 16 bits a thread has 80 to 128 registers, of
// which a multiprocessor has enough for 512 threads: two blocks of 256 wait for each other less than one of 512.
constexpr int backward_threads(int64_t element_bytes) {
  return element_bytes == 2 ? kMaxRowThreads / 2 : kMaxRowThreads;
}

template <class Norm>
NormGradients norm_gradients(
    const Tensor& grad, const std::optional<Tensor>& grad_sum, const Tensor& x, const Tensor& gamma, double epsilon) {
  const int64_t rows = check_norm_backward(grad, grad_sum, x, gamma);
  const DeviceScope scope(x);
  const int64_t width = gamma.size(0);
  const ElementKind kind = element_kind(x);
  const int packs =
      packs_of_thread(width, kind, most_backward_packs<Norm>(element_size(kind)), backward_threads(element_size(kind)));
  const NormBackwardTensors<Norm> tensors(
      grad, grad_sum, x, gamma, [packs](const Tensor& any) { return with_packed_rows(any, packs); });
  if (width == 0) return tensors.results();
  with_norm_types(x, gamma, [&](auto element, auto weight) {
    using Element = decltype(element);
    using Weight = decltype(weight);
    using Accumulate = accumulate_t<Element>;
    const auto pass = tensors.template pass<Element>(data_of<Weight>(tensors.gamma), epsilon);
    const dim3 threads = row_block(row_pack_threads(width, kind, packs));
    const int64_t bytes = packs > 0 ? 0 : sum_bytes<Norm, Accumulate>(width, threads);
    const bool in_shared = packs == 0 && bytes <= most_shared_bytes(scope.device());
    const Block block(threads, in_shared ? bytes : 0);
    // As many as run at a time, so that all end together: two or three times as many would leave the last wave half
    // empty. So the bits of the weights' gradients depend on the kind of GPU.
    const auto partials_of = [&](auto kernel) {
      const auto* address = reinterpret_cast<const void*>(kernel);
      const int64_t runs = row_runs(rows, resident_blocks(address, block, scope.device()));
      return new_contiguous({runs, (Norm::kCentered ? 2 : 1) * width}, kind_of<Accumulate>, x);
    };
    const auto blocks = [](const Tensor& partials) { return static_cast<uint32_t>(partials.size(0)); };
    const auto add = [&](const Tensor& partials) {
      Weight* beta_data = Norm::kCentered ? mutable_data_of<Weight>(tensors.grad_beta) : nullptr;
      add_columns(
          data_of<Accumulate>(partials), mutable_data_of<Weight>(tensors.grad_gamma), beta_data, partials.size(0),
          width, scope.stream());
    };
    if constexpr (sizeof(Element) < sizeof(double)) {
      constexpr int most = most_backward_packs<Norm>(sizeof(Element));
      if (packs > 0) {
        const auto kernel = packs == most ? packed_backward_kernel<Norm, most, Element, Weight>
                                          : packed_backward_kernel<Norm, 1, Element, Weight>;
        const Tensor partials = partials_of(kernel);
        launch(kernel, blocks(partials), block, scope.stream(), pass, mutable_data_of<Accumulate>(partials), rows);
        return add(partials);
      }
    }
    const auto kernel = shifted_backward_kernel<Norm, Element, Weight>;
    const Tensor partials = partials_of(kernel);
    launch(
        kernel, blocks(partials), block, scope.stream(), pass, mutable_data_of<Accumulate>(partials), rows, in_shared);
    add(partials);
  });
  return tensors.results();
}

}  // namespace burnlike::cuda
