// The checks of rows with weights or biases that keep kernels in bounds; burnlike/ops words them for the user.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "tensors.h"

namespace burnlike {

inline void check_place(const Tensor& tensor, const Tensor& x) {
  STD_TORCH_CHECK(
      tensor.is_cpu() == x.is_cpu() && tensor.get_device_index() == x.get_device_index(),
      "rows: tensors on different devices");
}

// Number of rows of x [..., d], each of which meets the same weight [d].
inline int64_t weighted_rows(const Tensor& x, const Tensor& weight) {
  check_place(weight, x);
  STD_TORCH_CHECK(x.dim() >= 1 && weight.dim() == 1, "rows: expected x [..., d] and a weight [d]");
  const int64_t width = x.size(x.dim() - 1);
  STD_TORCH_CHECK(weight.size(0) == width, "rows: the weight does not have the size of the last dimension of x");
  const ElementKind kind = element_kind(weight);
  STD_TORCH_CHECK(
      kind == element_kind(x) || kind == ElementKind::kFloat32,
      "rows: the weight has neither the dtype of x nor float32");
  return width == 0 ? 0 : x.numel() / width;
}

// That a tensor, where there is one, has the shape, dtype and device of another.
inline void check_alike(const std::optional<Tensor>& tensor, const Tensor& like) {
  if (!tensor) return;
  check_place(*tensor, like);
  STD_TORCH_CHECK(element_kind(*tensor) == element_kind(like), "rows: a tensor has another dtype");
  const auto sizes = tensor->sizes();
  const auto expected = like.sizes();
  STD_TORCH_CHECK(
      std::equal(sizes.begin(), sizes.end(), expected.begin(), expected.end()), "rows: a tensor has another shape");
}

}  // namespace burnlike
