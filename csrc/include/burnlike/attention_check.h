// The checks that keep attention's kernels in bounds; burnlike/ops/attention.py words them for the user.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "tensors.h"

namespace burnlike {

inline bool has_sizes(const Tensor& tensor, std::initializer_list<int64_t> expected) {
  const auto sizes = tensor.sizes();
  return std::equal(sizes.begin(), sizes.end(), expected.begin(), expected.end());
}

inline void check_attention_inputs(
    const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask,
    const std::optional<Tensor>& noise, double soft_cap) {
  STD_TORCH_CHECK(soft_cap >= 0.0 && std::isfinite(soft_cap), "attention: expected a soft cap of at least 0");
  for (const Tensor* tensor : {&key, &value}) {
    STD_TORCH_CHECK(tensor->is_cpu(), "attention: tensors on different devices");
    STD_TORCH_CHECK(element_kind(*tensor) == element_kind(query), "attention: tensors of different dtypes");
  }
  STD_TORCH_CHECK(
      query.dim() == 4 && key.dim() == 4 && value.dim() == 4 && query.numel() > 0 && key.numel() > 0,
      "attention: expected tensors [batch, heads, length, d_head] that are not empty");
  STD_TORCH_CHECK(
      has_sizes(key, {query.size(0), key.size(1), key.size(2), query.size(3)}) && query.size(1) % key.size(1) == 0,
      "attention: key does not fit query");
  STD_TORCH_CHECK(
      has_sizes(value, {key.size(0), key.size(1), key.size(2), key.size(3)}),
      "attention: value does not have the shape of key");
  const auto check_each_score = [&](const std::optional<Tensor>& tensor, ElementKind kind) {
    if (!tensor) return;
    STD_TORCH_CHECK(tensor->is_cpu(), "attention: mask or noise is on another device");
    STD_TORCH_CHECK(element_kind(*tensor) == kind, "attention: mask is not of query's dtype, or noise not of float32");
    STD_TORCH_CHECK(
        has_sizes(*tensor, {query.size(0), query.size(1), query.size(2), key.size(2)}),
        "attention: expected mask and noise [batch, heads, queries, keys]");
  };
  check_each_score(mask, element_kind(query));
  check_each_score(noise, ElementKind::kFloat32);
}

// A number of each query of each head.
inline void check_of_queries(const Tensor& query, const Tensor& numbers) {
  const bool is_double = element_kind(query) == ElementKind::kFloat64;
  STD_TORCH_CHECK(
      numbers.is_cpu() && element_kind(numbers) == (is_double ? ElementKind::kFloat64 : ElementKind::kFloat32) &&
          has_sizes(numbers, {query.size(0), query.size(1), query.size(2)}),
      "attention: largest scores or logarithms do not fit query");
}

// What the forward pass gave, and the gradient of its output.
inline void check_attention_results(
    const Tensor& query, const Tensor& grad, const Tensor& output, const Tensor& largest) {
  for (const Tensor* tensor : {&grad, &output}) {
    STD_TORCH_CHECK(
        tensor->is_cpu() && element_kind(*tensor) == element_kind(query) &&
            has_sizes(*tensor, {query.size(0), query.size(1), query.size(2), query.size(3)}),
        "attention: output or its gradient does not fit query");
  }
  check_of_queries(query, largest);
}

}  // namespace burnlike
