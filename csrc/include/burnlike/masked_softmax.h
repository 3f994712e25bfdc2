// softmax(scale * scores) of rows of which some columns are hidden, for CPU and CUDA: what a kernel gets, and the
// arithmetic of one value.
//
// With y = exp(z - max(z)) / sum(exp(z - max(z))) and z = scale * scores, the gradient of the scores is
// scale * y * (dy - sum(dy * y)), and 0 where they are hidden. A row of which all is hidden gets equal weights, as in
// attention with a finite score for what is hidden.
#pragma once

#include "functions.h"

namespace burnlike {

// A mask that was broadcast to [rows, columns], read where it is: rows at several distances, which may be 0.
struct MaskRows {
  static constexpr int kMaxDims = 8;

  const uint8_t* data = nullptr;  // null hides nothing
  int64_t column_stride = 0;      // 0 or 1
  int dims = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};

  BURNLIKE_INLINE const uint8_t* row(int64_t index) const {
    int64_t offset = 0;
    for (int dim = dims - 1; dim > 0; --dim) {
      offset += index % sizes[dim] * strides[dim];
      index /= sizes[dim];
    }
    return data + offset + (dims > 0 ? index * strides[0] : 0);
  }
};

// What of a row may be seen: the columns before `end` that `mask` does not hide.
struct SeenColumns {
  const uint8_t* mask;  // of each column, or null
  int64_t end;

  BURNLIKE_INLINE bool hides(int64_t column) const { return mask != nullptr && mask[column] != 0; }
};

// What hides columns: a mask, and in matrices of `matrix_rows` what comes after a row's place, if that is not 0. The
// last row sees all columns.
struct HiddenColumns {
  MaskRows mask;
  int64_t matrix_rows;
  int64_t columns;

  BURNLIKE_INLINE SeenColumns row(int64_t index) const {
    int64_t end = columns;
    if (matrix_rows > 0) {
      const int64_t seen = index % matrix_rows + columns - matrix_rows + 1;
      end = seen < 0 ? 0 : seen < columns ? seen : columns;
    }
    if (mask.data == nullptr) return {nullptr, end};
    const uint8_t* places = mask.row(index);
    if (mask.column_stride == 1) return {places, end};
    return {nullptr, *places != 0 ? 0 : end};
  }
};

// The contiguous tensors [rows, columns] of a forward pass.
template <class Element>
struct SoftmaxForward {
  const Element* scores;
  Element* y;
  HiddenColumns hidden;
  accumulate_t<Element> scale;
};

// Those of a backward pass.
template <class Element>
struct SoftmaxBackward {
  const Element* grad;
  const Element* y;
  Element* grad_scores;
  HiddenColumns hidden;
  accumulate_t<Element> scale;
};

// A score that exp makes 0.
template <class Accumulate>
BURNLIKE_INLINE Accumulate hidden_score() {
  return -static_cast<Accumulate>(__builtin_inff());
}

template <class Accumulate>
BURNLIKE_INLINE Accumulate seen_score(Accumulate score, Accumulate scale, bool hidden) {
  return hidden ? hidden_score<Accumulate>() : score * scale;
}

template <class Accumulate>
BURNLIKE_INLINE Accumulate softmax_product(Accumulate grad, Accumulate y, bool hidden) {
  return hidden ? Accumulate(0) : grad * y;
}

template <class Accumulate>
BURNLIKE_INLINE Accumulate
softmax_grad(Accumulate grad, Accumulate y, Accumulate sum_of_products, Accumulate scale, bool hidden) {
  return hidden ? Accumulate(0) : y * (grad - sum_of_products) * scale;
}

}  // namespace burnlike
