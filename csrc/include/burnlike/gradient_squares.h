// The lists of `gradient_squares_`, checked before anything is written. For CPU and CUDA.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor_list.h"

namespace burnlike {

// Values whose squares are summed by themselves; these sums are added in their order, which fixes the result's bits.
inline constexpr int64_t kSquaresTile = 4096;

// The values of a gradient and where the sum of their squares belongs.
struct GradientValues {
  const void* values;
  double* square;
  int64_t count;
  ElementKind kind;
};

class GradientLists {
 public:
  GradientLists(StableListHandle grads, const Tensor& squares) : grads_(grads) {
    int32_t dtype = 0;
    int32_t device_type = 0;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(squares.get(), &dtype));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(squares.get(), &device_type));
    STD_TORCH_CHECK(
        dtype == aoti_torch_dtype_float64() && squares.dim() == 1 && squares.is_contiguous() &&
            squares.size(0) == static_cast<int64_t>(grads_.size()),
        "gradient_squares_: squares is not float64 with one value for each gradient");
    double* sums = mutable_data_of<double>(squares);
    tensors_.reserve(grads_.size());
    for (size_t index = 0; index < grads_.size(); ++index) {
      const TensorFacts& grad = grads_[index];
      STD_TORCH_CHECK(
          grad.device_type == device_type && grad.device_index == squares.get_device_index(),
          "gradient_squares_: a gradient is not where squares is");
      tensors_.push_back({grad.data, sums + index, grad.count, element_kind(grad.dtype)});
    }
    for (size_t index = 0; index < grads_.size(); ++index) {
      if (grads_[index].data != nullptr || grads_[index].count == 0) continue;
      copies_.push_back(contiguous_copy(TensorList::tensor_of(grads_[index])));
      tensors_[index].values = copies_.back().const_data_ptr();
    }
  }

  // All gradients, those without values too.
  const std::vector<GradientValues>& tensors() const { return tensors_; }

 private:
  TensorList grads_;
  std::vector<GradientValues> tensors_;
  std::vector<Tensor> copies_;
};

}  // namespace burnlike
