// softmax(scale * scores) with hidden columns on the CPU: checks, outputs and threads. The arithmetic is in
// isa/masked_softmax.inl.
#include <torch/csrc/stable/library.h>

#include <optional>
#include <vector>

#include "burnlike/calls.h"
#include "burnlike/masked_softmax_check.h"
#include "isa/masked_softmax.h"
#include "rows.h"

namespace burnlike::cpu {
namespace {

CallCounter forward_calls{"masked_softmax"};
CallCounter backward_calls{"masked_softmax_backward"};

Tensor masked_softmax(const Tensor& scores_any, const std::optional<Tensor>& mask_any, double scale, bool causal) {
  forward_calls.add();
  const ElementKind kind = element_kind(scores_any);
  const std::optional<Tensor> mask = readable_mask(mask_any, scores_any);
  const HiddenColumns hidden = hidden_columns(mask, scores_any, causal);
  const Tensor scores = as_contiguous(scores_any);
  const Tensor y = new_like(scores);
  if (scores.numel() == 0) return y;
  with_element_type(kind, [&](auto element) {
    using Element = decltype(element);
    using Accumulate = accumulate_t<Element>;
    const SoftmaxForward<Element> pass{
        data_of<Element>(scores), mutable_data_of<Element>(y), hidden, static_cast<Accumulate>(scale)};
    const auto forward = masked_softmax_kernels()(element).forward;
    for_rows(scores.numel() / hidden.columns, hidden.columns, [&](int64_t begin, int64_t end) {
      std::vector<Accumulate> scratch(hidden.columns + 128 / sizeof(Accumulate));
      forward(pass, scratch.data(), begin, end);
    });
  });
  return y;
}

Tensor masked_softmax_backward(
    const Tensor& grad_any, const Tensor& y_any, const std::optional<Tensor>& mask_any, double scale, bool causal) {
  backward_calls.add();
  const ElementKind kind = element_kind(y_any);
  check_alike(grad_any, y_any);
  const std::optional<Tensor> mask = readable_mask(mask_any, y_any);
  const HiddenColumns hidden = hidden_columns(mask, y_any, causal);
  const Tensor grad = as_contiguous(grad_any);
  const Tensor y = as_contiguous(y_any);
  const Tensor grad_scores = new_like(y);
  if (y.numel() == 0) return grad_scores;
  with_element_type(kind, [&](auto element) {
    using Element = decltype(element);
    const SoftmaxBackward<Element> pass{
        data_of<Element>(grad), data_of<Element>(y), mutable_data_of<Element>(grad_scores), hidden,
        static_cast<accumulate_t<Element>>(scale)};
    const auto backward = masked_softmax_kernels()(element).backward;
    for_rows(
        y.numel() / hidden.columns, hidden.columns, [&](int64_t begin, int64_t end) { backward(pass, begin, end); });
  });
  return grad_scores;
}

}  // namespace
}  // namespace burnlike::cpu

STABLE_TORCH_LIBRARY_FRAGMENT(burnlike, library) {
  library.def("masked_softmax(Tensor scores, Tensor? mask, float scale, bool causal) -> Tensor");
  library.def("masked_softmax_backward(Tensor grad, Tensor y, Tensor? mask, float scale, bool causal) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(burnlike, CPU, library) {
  library.impl("masked_softmax", TORCH_BOX(&burnlike::cpu::masked_softmax));
  library.impl("masked_softmax_backward", TORCH_BOX(&burnlike::cpu::masked_softmax_backward));
}
