// What ops need from tensors, over LibTorch's stable ABI. For host code of both libraries.
#pragma once

#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "element.h"

namespace burnlike {

using torch::stable::Tensor;

// The four element types that ops take.
enum class ElementKind : uint8_t { kFloat32, kFloat64, kBFloat16, kFloat16 };

// Torch's code of each, in the order of ElementKind.
inline const std::array<int32_t, 4>& dtype_codes() {
  static const std::array<int32_t, 4> codes = {
      aoti_torch_dtype_float32(), aoti_torch_dtype_float64(), aoti_torch_dtype_bfloat16(), aoti_torch_dtype_float16()};
  return codes;
}

// From torch's code of a dtype; throws for any other.
inline ElementKind element_kind(int32_t dtype) {
  const auto& codes = dtype_codes();
  const auto found = std::find(codes.begin(), codes.end(), dtype);
  STD_TORCH_CHECK(found != codes.end(), "expected float32, float64, bfloat16 or float16");
  return static_cast<ElementKind>(found - codes.begin());
}

inline int32_t dtype_code(ElementKind kind) { return dtype_codes()[static_cast<size_t>(kind)]; }

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

// The same of ops that take float32 and bfloat16 alone.
template <class Function>
void with_float_or_bfloat16(ElementKind kind, Function&& function) {
  if (kind == ElementKind::kBFloat16) return function(BFloat16{});
  function(float{});
}

template <class Element>
constexpr ElementKind kind_of = ElementKind::kFloat32;
template <>
inline constexpr ElementKind kind_of<double> = ElementKind::kFloat64;
template <>
inline constexpr ElementKind kind_of<BFloat16> = ElementKind::kBFloat16;
template <>
inline constexpr ElementKind kind_of<Float16> = ElementKind::kFloat16;

// The number of values from a tensor's first to behind its last, in memory.
inline int64_t memory_extent(const int64_t* sizes, const int64_t* strides, int64_t dim) {
  int64_t extent = 1;
  for (int64_t index = 0; index < dim; ++index) {
    if (sizes[index] == 0) return 0;
    extent += (sizes[index] - 1) * strides[index];
  }
  return extent;
}

// Throws where a tensor's storage ends before its values do, as after `untyped_storage().resize_(0)`, by which FSDP1
// frees what it does not need at the moment. Torch itself does not look.
inline void check_storage(AtenTensorHandle tensor, int64_t extent) {
  int64_t values = 0;
  int64_t offset = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_storage_numel(tensor, &values));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_storage_offset(tensor, &offset));
  STD_TORCH_CHECK(
      extent == 0 || (extent <= values && offset <= values - extent),
      "a tensor's storage was freed: it holds fewer values than the tensor has");
}

inline void check_storage(const Tensor& tensor) {
  check_storage(tensor.get(), memory_extent(tensor.sizes().data(), tensor.strides().data(), tensor.dim()));
}

// Whether values of `size` bytes may be read there one by one. Torch takes memory at any address, as from a file.
inline bool is_aligned(const void* data, int64_t size) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size) == 0;
}

template <class Element>
const Element* data_of(const Tensor& tensor) {
  check_storage(tensor);
  const void* data = tensor.const_data_ptr();
  STD_TORCH_CHECK(is_aligned(data, sizeof(Element)), "a tensor's memory is not aligned to its values; clone() it");
  return static_cast<const Element*>(data);
}

template <class Element>
Element* mutable_data_of(const Tensor& tensor) {
  check_storage(tensor);
  void* data = tensor.mutable_data_ptr();
  STD_TORCH_CHECK(is_aligned(data, sizeof(Element)), "a tensor's memory is not aligned to its values; clone() it");
  return static_cast<Element*>(data);
}

// A contiguous copy at an aligned address.
inline Tensor contiguous_copy(const Tensor& tensor) {
  check_storage(tensor);
  return tensor.is_contiguous() ? torch::stable::clone(tensor) : torch::stable::contiguous(tensor);
}

// The tensor itself where kernels can use it, else such a copy.
inline Tensor as_contiguous(const Tensor& tensor) {
  const bool is_usable =
      tensor.is_contiguous() && is_aligned(tensor.const_data_ptr(), element_size(element_kind(tensor)));
  return is_usable ? tensor : contiguous_copy(tensor);
}

// Bytes of a tensor from which its memory is asked for in large pages.
inline constexpr int64_t kHugePagesFrom = int64_t{1} << 22;

// Asks the system for pages of 2 MB for memory that is about to be written for the first time: by pages of 4 kB,
// getting them takes several times as long as writing to them. NumPy does the same.
inline void prefer_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t kPage = 4096;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(bytes)) / kPage * kPage;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // without which all is as it was
#endif
}

// An uninitialized tensor on the device of `like`; `torch::stable::empty` would look its op up by name.
inline Tensor new_strided(
    const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, ElementKind kind, const Tensor& like) {
  int32_t device_type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(like.get(), &device_type));
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype_code(kind), device_type,
      like.get_device_index(), &handle));
  Tensor made(handle);
  const int64_t bytes = made.numel() * element_size(kind);
  if (bytes >= kHugePagesFrom && device_type == aoti_torch_device_type_cpu()) {
    prefer_huge_pages(made.mutable_data_ptr(), bytes);
  }
  return made;
}

inline Tensor new_contiguous(const std::vector<int64_t>& sizes, ElementKind kind, const Tensor& like) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= std::max<int64_t>(sizes[dim], 1);
  }
  return new_strided(sizes, strides, kind, like);
}

inline Tensor new_like(const Tensor& like) {
  const auto sizes = like.sizes();
  return new_contiguous({sizes.begin(), sizes.end()}, element_kind(like), like);
}

}  // namespace burnlike
