// The checks that keep the cross-entropy kernels in bounds; burnlike/ops/cross_entropy.py words them for the user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cross_entropy.h"
#include "tensors.h"

namespace burnlike {

using OptionalTensor = std::optional<Tensor>;

enum class Reduction : uint8_t { kNone, kMean, kSum };

inline Reduction reduction_of(const std::string& name) {
  if (name == "none") return Reduction::kNone;
  if (name == "mean") return Reduction::kMean;
  STD_TORCH_CHECK(name == "sum", "cross_entropy: expected a reduction of none, mean or sum");
  return Reduction::kSum;
}

inline bool is_int64(const Tensor& tensor) {
  int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  return dtype == aoti_torch_dtype_int64();
}

inline bool is_beside(const Tensor& tensor, const Tensor& other) {
  return tensor.is_cpu() == other.is_cpu() && tensor.get_device_index() == other.get_device_index();
}

inline void check_cross_entropy(
    const Tensor& logits, const Tensor& targets, const OptionalTensor& weight, double label_smoothing, double z_loss,
    const std::optional<double>& soft_cap) {
  STD_TORCH_CHECK(is_beside(targets, logits), "cross_entropy: targets are not where logits are");
  STD_TORCH_CHECK(
      logits.dim() == 2 && targets.dim() == 1 && targets.size(0) == logits.size(0),
      "cross_entropy: expected logits [n, classes] and targets [n]");
  STD_TORCH_CHECK(is_int64(targets), "cross_entropy: expected targets of int64");
  STD_TORCH_CHECK(
      label_smoothing >= 0.0 && label_smoothing <= 1.0, "cross_entropy: label_smoothing is not from 0 to 1");
  STD_TORCH_CHECK(z_loss >= 0.0 && z_loss <= 1e6, "cross_entropy: z_loss is not from 0 to 1e6");
  STD_TORCH_CHECK(
      !soft_cap || (*soft_cap >= 1e-6 && *soft_cap <= 1e6), "cross_entropy: soft_cap is not from 1e-6 to 1e6");
  if (!weight) return;
  STD_TORCH_CHECK(is_beside(*weight, logits), "cross_entropy: weight is not where logits are");
  STD_TORCH_CHECK(weight->dim() == 1 && weight->size(0) == logits.size(1), "cross_entropy: expected weight [classes]");
  const ElementKind kind = element_kind(*weight);
  STD_TORCH_CHECK(
      kind == element_kind(logits) || kind == ElementKind::kFloat32,
      "cross_entropy: weight has neither the dtype of logits nor float32");
}

// Of the tensors that the forward pass made, and of the gradient of its loss.
inline void check_cross_entropy_backward(
    const Tensor& grad, const Tensor& logits, const Tensor& statistics, const Tensor& total_weight, Reduction reduction,
    ElementKind accumulate) {
  STD_TORCH_CHECK(
      is_beside(grad, logits) && is_beside(statistics, logits) && is_beside(total_weight, logits),
      "cross_entropy: tensors on different devices");
  STD_TORCH_CHECK(
      element_kind(grad) == accumulate && element_kind(statistics) == accumulate &&
          element_kind(total_weight) == ElementKind::kFloat64,
      "cross_entropy: a tensor of the backward pass has another dtype");
  const bool has_shapes = statistics.dim() == 2 && statistics.size(0) == logits.size(0) && statistics.size(1) == 2 &&
                          total_weight.numel() == 1;
  const bool fits = reduction == Reduction::kNone ? grad.dim() == 1 && grad.size(0) == logits.size(0) : grad.dim() == 0;
  STD_TORCH_CHECK(has_shapes && fits, "cross_entropy: a tensor of the backward pass has another shape");
}

inline Tensor contiguous_targets(const Tensor& targets) {
  const bool is_usable = targets.is_contiguous() && is_aligned(targets.const_data_ptr(), sizeof(int64_t));
  return is_usable ? targets : contiguous_copy(targets);
}

}  // namespace burnlike
