// What ops need from tensors, over LibTorch's stable ABI. For host code of both libraries.
#pragma once

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <cstdint>
#include <vector>

#include "element.h"

namespace burnlike {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Calls `function` with a value of the element type for `dtype`, one of the four that ops take.
template <class Function>
decltype(auto) with_element_type(ScalarType dtype, Function&& function) {
  switch (dtype) {
    case ScalarType::Float:
      return function(float{});
    case ScalarType::Double:
      return function(double{});
    case ScalarType::BFloat16:
      return function(BFloat16{});
    case ScalarType::Half:
      return function(Float16{});
    default:
      STD_TORCH_CHECK(false, "expected float32, float64, bfloat16 or float16");
  }
}

template <class Element>
constexpr ScalarType scalar_type_of();
template <>
constexpr ScalarType scalar_type_of<float>() {
  return ScalarType::Float;
}
template <>
constexpr ScalarType scalar_type_of<double>() {
  return ScalarType::Double;
}
template <>
constexpr ScalarType scalar_type_of<BFloat16>() {
  return ScalarType::BFloat16;
}
template <>
constexpr ScalarType scalar_type_of<Float16>() {
  return ScalarType::Half;
}

template <class Element>
const Element* data_of(const Tensor& tensor) {
  return static_cast<const Element*>(tensor.const_data_ptr());
}

template <class Element>
Element* mutable_data_of(const Tensor& tensor) {
  return static_cast<Element*>(tensor.mutable_data_ptr());
}

inline Tensor as_contiguous(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}

// An uninitialized contiguous tensor on the device of `like`.
inline Tensor new_contiguous(std::vector<int64_t> sizes, ScalarType dtype, const Tensor& like) {
  return torch::stable::empty(sizes, dtype, std::nullopt, like.device());
}

inline Tensor new_like(const Tensor& like) {
  const auto sizes = like.sizes();
  return new_contiguous({sizes.begin(), sizes.end()}, like.scalar_type(), like);
}

// The tensor itself, or a copy in another element type.
inline Tensor as_type(const Tensor& tensor, ScalarType dtype) {
  return tensor.scalar_type() == dtype ? tensor : torch::stable::to(tensor, dtype);
}

}  // namespace burnlike
