// Tensors as rows at one distance, without a copy where they are.
#pragma once

#include <cstdint>

#include "row_places.h"
#include "tensors.h"

namespace burnlike {

// The distance of the rows [..., width] of a tensor; -1 where they are not at one distance, or not of neighbours.
inline int64_t row_stride(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  int64_t dim = tensor.dim();
  if (dim == 0) return 1;
  --dim;
  if (sizes[dim] > 1 && strides[dim] != 1) return -1;
  int64_t stride = -1;
  int64_t extent = 0;
  while (dim-- > 0) {
    if (sizes[dim] == 1) continue;
    if (stride < 0) {
      stride = strides[dim];
      extent = stride;
    }
    if (strides[dim] != extent) return -1;
    extent *= sizes[dim];
  }
  return stride < 0 ? sizes[tensor.dim() - 1] : stride;
}

// A tensor whose rows are at one distance and can be read: itself, or a contiguous copy.
struct RowTensor {
  explicit RowTensor(const Tensor& any) : tensor(any), stride(row_stride(any)) {
    if (stride >= 0 && is_aligned(any.const_data_ptr(), element_size(element_kind(any)))) return;
    tensor = contiguous_copy(any);
    stride = tensor.dim() == 0 ? 1 : tensor.size(tensor.dim() - 1);
  }

  template <class Element>
  RowPlaces<const Element> places() const {
    return {data_of<Element>(tensor), stride};
  }

  Tensor tensor;
  int64_t stride;
};

}  // namespace burnlike
