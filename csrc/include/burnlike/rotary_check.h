// The checks that keep the rotary kernels in bounds, which burnlike/ops/rotary.py words for the user, and where values
// are in memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "tensors.h"

namespace burnlike {

// Of query and key [batch, heads, sequence, width]; the first 2 * half values of each row are turned. Whole tables have
// a column for each of them, others for each pair.
struct RotarySizes {
  int64_t batch, sequence, width, half;
  bool whole;
};

inline void check_rotary_heads(const Tensor& x, const Tensor& query) {
  STD_TORCH_CHECK(
      x.is_cpu() == query.is_cpu() && x.get_device_index() == query.get_device_index(),
      "rotary: tensors on different devices");
  STD_TORCH_CHECK(x.dim() == 4, "rotary: expected query and key [batch, heads, sequence, d]");
  STD_TORCH_CHECK(
      element_kind(x) == element_kind(query) && x.size(0) == query.size(0) && x.size(2) == query.size(2) &&
          x.size(3) == query.size(3),
      "rotary: key does not have the dtype, batch, sequence and d of query");
}

inline void check_rotary_table(const Tensor& table, const Tensor& query, const Tensor& cosine) {
  STD_TORCH_CHECK(
      table.is_cpu() == query.is_cpu() && table.get_device_index() == query.get_device_index(),
      "rotary: tensors on different devices");
  const ElementKind kind = element_kind(table);
  STD_TORCH_CHECK(
      kind == element_kind(query) || kind == ElementKind::kFloat32,
      "rotary: a table has neither the dtype of query nor float32");
  const auto sizes = table.sizes();
  const auto cosine_sizes = cosine.sizes();
  STD_TORCH_CHECK(
      kind == element_kind(cosine) && std::equal(sizes.begin(), sizes.end(), cosine_sizes.begin(), cosine_sizes.end()),
      "rotary: sin does not have the dtype and shape of cos");
}

inline RotarySizes rotary_sizes(
    const Tensor& query, const Tensor& key, const Tensor& cosine, const Tensor& sine, bool interleaved) {
  check_rotary_heads(query, query);
  check_rotary_heads(key, query);
  check_rotary_table(cosine, query, cosine);
  check_rotary_table(sine, query, cosine);
  const int64_t dim = cosine.dim();
  STD_TORCH_CHECK(dim == 2 || dim == 3, "rotary: expected tables [sequence, r / 2] or [batch, sequence, r / 2]");
  const int64_t width = query.size(3);
  const int64_t columns = cosine.size(dim - 1);
  const bool whole = !interleaved && width > 0 && width % 2 == 0 && columns == width;
  const RotarySizes sizes{query.size(0), query.size(2), width, whole ? width / 2 : columns, whole};
  STD_TORCH_CHECK(
      cosine.size(dim - 2) == sizes.sequence && sizes.half <= sizes.width / 2 &&
          (dim == 2 || cosine.size(0) == sizes.batch || cosine.size(0) == 1),
      "rotary: tables do not have the sequence or batch of query, or more than d / 2 columns");
  return sizes;
}

// The tensor itself where the values of a row lie side by side, else a contiguous copy.
inline Tensor with_whole_rows(const Tensor& tensor) {
  const bool is_usable = (tensor.size(tensor.dim() - 1) <= 1 || tensor.stride(tensor.dim() - 1) == 1) &&
                         is_aligned(tensor.const_data_ptr(), element_size(element_kind(tensor)));
  return is_usable ? tensor : contiguous_copy(tensor);
}

// Whether the heads of a position lie beside each other, as a projection writes them: [batch, sequence, heads, d].
inline bool has_heads_inside(const Tensor& x) { return x.stride(1) < x.stride(2); }

// An uninitialized tensor in the order of x: contiguous, or [batch, sequence, heads, d] with the middle two swapped.
inline Tensor new_heads_like(const Tensor& x) {
  if (!has_heads_inside(x)) return new_like(x);
  const auto room = [&](int64_t dim) { return std::max<int64_t>(x.size(dim), 1); };
  const int64_t position = room(1) * room(3);
  return new_strided(
      {x.size(0), x.size(1), x.size(2), x.size(3)}, {room(2) * position, room(3), position, 1}, element_kind(x), x);
}

// Strides of [batch, heads, sequence], in values.
using RotaryStrides = std::array<int64_t, 3>;

inline RotaryStrides heads_strides(const Tensor& x) { return {x.stride(0), x.stride(1), x.stride(2)}; }

inline RotaryStrides table_strides(const Tensor& table) {
  const bool is_common = table.dim() == 2 || table.size(0) == 1;
  return {is_common ? 0 : table.stride(0), 0, table.stride(table.dim() - 2)};
}

}  // namespace burnlike
