// What ops need from tensors, over LibTorch's stable ABI. For host code of both libraries.
#pragma once

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "element.h"

namespace burnlike {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// The four element types that ops take.
enum class ElementKind : uint8_t { kFloat32, kFloat64, kBFloat16, kFloat16 };

// From torch's code of a dtype; throws for any other.
inline ElementKind element_kind(int32_t dtype) {
  static const int32_t codes[] = {
      aoti_torch_dtype_float32(), aoti_torch_dtype_float64(), aoti_torch_dtype_bfloat16(), aoti_torch_dtype_float16()};
  const int32_t* found = std::find(std::begin(codes), std::end(codes), dtype);
  STD_TORCH_CHECK(found != std::end(codes), "expected float32, float64, bfloat16 or float16");
  return static_cast<ElementKind>(found - codes);
}

inline ElementKind element_kind(const Tensor& tensor) {
  int32_t dtype = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &dtype));
  return element_kind(dtype);
}

inline int64_t element_size(ElementKind kind) {
  constexpr int64_t sizes[] = {4, 8, 2, 2};
  return sizes[static_cast<int>(kind)];
}

// Calls `function` with a value of the element type.
template <class Function>
decltype(auto) with_element_type(ElementKind kind, Function&& function) {
  switch (kind) {
    case ElementKind::kFloat64:
      return function(double{});
    case ElementKind::kBFloat16:
      return function(BFloat16{});
    case ElementKind::kFloat16:
      return function(Float16{});
    default:
      return function(float{});
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
