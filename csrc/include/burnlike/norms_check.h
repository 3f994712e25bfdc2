// The checks that keep the kernels of normalizations in bounds; burnlike/ops words them for the user.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "tensors.h"

namespace burnlike {

inline void check_place(const Tensor& tensor, const Tensor& x) {
  STD_TORCH_CHECK(
      tensor.is_cpu() == x.is_cpu() && tensor.get_device_index() == x.get_device_index(),
      "normalization: tensors on different devices");
}

// Number of rows of x.
inline int64_t norm_rows(const Tensor& x, const Tensor& gamma) {
  check_place(gamma, x);
  STD_TORCH_CHECK(x.dim() >= 1 && gamma.dim() == 1, "normalization: expected x [..., d] and gamma [d]");
  const int64_t width = x.size(x.dim() - 1);
  STD_TORCH_CHECK(gamma.size(0) == width, "normalization: gamma does not have the size of the last dimension of x");
  const ElementKind kind = element_kind(gamma);
  STD_TORCH_CHECK(
      kind == element_kind(x) || kind == ElementKind::kFloat32,
      "normalization: gamma has neither the dtype of x nor float32");
  return width == 0 ? 0 : x.numel() / width;
}

// That a tensor, where there is one, has the shape, dtype and device of another.
inline void check_alike(const std::optional<Tensor>& tensor, const Tensor& like) {
  if (!tensor) return;
  check_place(*tensor, like);
  STD_TORCH_CHECK(element_kind(*tensor) == element_kind(like), "normalization: a tensor has another dtype");
  const auto sizes = tensor->sizes();
  const auto expected = like.sizes();
  STD_TORCH_CHECK(
      std::equal(sizes.begin(), sizes.end(), expected.begin(), expected.end()),
      "normalization: a tensor has another shape");
}

}  // namespace burnlike
