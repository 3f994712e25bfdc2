// The tensors of masked_softmax, checked and as its kernels take them; burnlike/ops/masked_softmax.py words the errors.
#pragma once

#include <optional>

#include "masked_softmax.h"
#include "rows_check.h"

namespace burnlike {

// The mask in a form that kernels can read: itself, or a copy where neighbours are not side by side.
inline std::optional<Tensor> readable_mask(const std::optional<Tensor>& mask, const Tensor& scores) {
  if (!mask) return std::nullopt;
  check_place(*mask, scores);
  int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(mask->get(), &dtype));
  STD_TORCH_CHECK(dtype == aoti_torch_dtype_bool(), "masked_softmax: expected a mask of bool");
  const int64_t dims = mask->dim();
  STD_TORCH_CHECK(dims <= scores.dim(), "masked_softmax: the mask has more dimensions than the scores");
  for (int64_t dim = 1; dim <= dims; ++dim) {
    const int64_t size = mask->size(dims - dim);
    STD_TORCH_CHECK(
        size == 1 || size == scores.size(scores.dim() - dim), "masked_softmax: the mask does not broadcast to scores");
  }
  const bool is_readable = dims == 0 || mask->size(dims - 1) == 1 || mask->strides()[dims - 1] <= 1;
  return is_readable ? *mask : contiguous_copy(*mask);
}

// The places of a readable mask for the rows of the scores. Dimensions that are steps of one distance become one.
inline MaskRows mask_rows(const std::optional<Tensor>& mask, const Tensor& scores) {
  MaskRows places;
  if (!mask) return places;
  places.data = data_of<uint8_t>(*mask);
  const int64_t dims = mask->dim();
  const auto stride = [&](int64_t from_last) -> int64_t {
    const int64_t dim = dims - from_last;
    return dim < 0 || mask->size(dim) == 1 ? 0 : mask->strides()[dim];
  };
  places.column_stride = stride(1);
  for (int64_t from_last = scores.dim(); from_last > 1; --from_last) {
    const int64_t size = scores.size(scores.dim() - from_last);
    if (size == 1) continue;
    const int last = places.dims - 1;
    if (last >= 0 && places.strides[last] == stride(from_last) * size) {
      places.sizes[last] *= size;
      places.strides[last] = stride(from_last);
      continue;
    }
    STD_TORCH_CHECK(places.dims < MaskRows::kMaxDims, "masked_softmax: the mask is broadcast in too many ways");
    places.sizes[places.dims] = size;
    places.strides[places.dims++] = stride(from_last);
  }
  return places;
}

// What is hidden of scores [..., rows, columns].
inline HiddenColumns hidden_columns(const std::optional<Tensor>& readable, const Tensor& scores, bool causal) {
  const int64_t dims = scores.dim();
  STD_TORCH_CHECK(dims >= (causal ? 2 : 1), "masked_softmax: the scores have too few dimensions");
  const int64_t rows = causal ? scores.size(dims - 2) : 0;
  return {mask_rows(readable, scores), rows, scores.size(dims - 1)};
}

}  // namespace burnlike
