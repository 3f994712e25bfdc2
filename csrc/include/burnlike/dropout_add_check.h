// The checks that keep the kernels of dropout_add in bounds; burnlike/ops/dropout_add.py words them for the user.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensors.h"

namespace burnlike {

inline void check_same_device(const Tensor& tensor, const Tensor& other) {
  STD_TORCH_CHECK(
      tensor.is_cpu() == other.is_cpu() && tensor.get_device_index() == other.get_device_index(),
      "dropout_add: tensors on different devices");
}

inline void check_dropout(double probability, const Tensor& seed, const Tensor& x) {
  STD_TORCH_CHECK(probability >= 0 && probability <= 1, "dropout_add: expected a probability from 0 to 1");
  check_same_device(seed, x);
  int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(seed.get(), &dtype));
  STD_TORCH_CHECK(dtype == aoti_torch_dtype_int64() && seed.numel() == 1, "dropout_add: expected one seed of int64");
}

// Of values that are added to x, or that its gradient is made of.
inline void check_wide_kind(ElementKind wide, ElementKind kind) {
  STD_TORCH_CHECK(
      wide == kind || (wide == ElementKind::kFloat32 && kind != ElementKind::kFloat64),
      "dropout_add: the residual has neither the dtype of x nor float32");
}

inline void check_dropout_add(const Tensor& x, const Tensor& residual, double probability, const Tensor& seed) {
  check_dropout(probability, seed, x);
  check_same_device(residual, x);
  check_wide_kind(element_kind(residual), element_kind(x));
  const auto sizes = x.sizes();
  const auto residual_sizes = residual.sizes();
  STD_TORCH_CHECK(
      std::equal(sizes.begin(), sizes.end(), residual_sizes.begin(), residual_sizes.end()),
      "dropout_add: the residual does not have the shape of x");
}

inline Tensor new_like(const Tensor& like, ElementKind kind) {
  const auto sizes = like.sizes();
  return new_contiguous({sizes.begin(), sizes.end()}, kind, like);
}

}  // namespace burnlike
