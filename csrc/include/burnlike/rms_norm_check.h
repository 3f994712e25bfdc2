// The checks that keep the RMS normalization kernels in bounds; burnlike/ops/rms_norm.py words them for the user.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensors.h"

namespace burnlike {

// Number of rows of x.
inline int64_t rms_norm_rows(const Tensor& x, const Tensor& gamma) {
  STD_TORCH_CHECK(
      x.is_cpu() == gamma.is_cpu() && x.get_device_index() == gamma.get_device_index(),
      "rms_norm: tensors on different devices");
  STD_TORCH_CHECK(x.dim() >= 1 && gamma.dim() == 1, "rms_norm: expected x [..., d] and gamma [d]");
  const int64_t width = x.size(x.dim() - 1);
  STD_TORCH_CHECK(gamma.size(0) == width, "rms_norm: gamma does not have the size of the last dimension of x");
  const ElementKind kind = element_kind(gamma);
  STD_TORCH_CHECK(
      kind == element_kind(x) || kind == ElementKind::kFloat32,
      "rms_norm: gamma has neither the dtype of x nor float32");
  return width == 0 ? 0 : x.numel() / width;
}

inline void check_rms_norm_grad(const Tensor& grad, const Tensor& x) {
  STD_TORCH_CHECK(
      grad.is_cpu() == x.is_cpu() && grad.get_device_index() == x.get_device_index(),
      "rms_norm: grad is not where x is");
  STD_TORCH_CHECK(element_kind(grad) == element_kind(x), "rms_norm: grad does not have the dtype of x");
  const auto sizes = grad.sizes();
  const auto x_sizes = x.sizes();
  STD_TORCH_CHECK(
      std::equal(sizes.begin(), sizes.end(), x_sizes.begin(), x_sizes.end()),
      "rms_norm: grad does not have the shape of x");
}

}  // namespace burnlike
