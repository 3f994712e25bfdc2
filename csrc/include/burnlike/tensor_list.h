// A `Tensor[]` argument of an op, with as little work for each tensor as the stable ABI allows: with hundreds of small
// tensors, handing them over costs more than computing on them.
#pragma once

#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensors.h"

namespace burnlike {

// What a kernel has to know of a tensor, read once. `data` is null for a tensor that is not contiguous or not aligned:
// kernels take a copy of it.
struct TensorFacts {
  AtenTensorHandle handle;
  void* data;
  const int64_t* sizes;
  int64_t dim;
  int64_t count;
  int32_t dtype;
  int32_t device_type;
  int32_t device_index;

  bool same_place(const TensorFacts& other) const {
    return device_type == other.device_type && device_index == other.device_index;
  }

  bool same_shape(const TensorFacts& other) const {
    return dim == other.dim && std::equal(sizes, sizes + dim, other.sizes);
  }

  // Whether values lie without gaps, at aligned places, and in the order of those of `other`.
  bool lies_as(const TensorFacts& other) const {
    if (!same_shape(other)) return false;
    const int64_t* own = strides();
    const int64_t* others = other.strides();
    for (int64_t index = 0; index < dim; ++index) {
      if (sizes[index] > 1 && own[index] != others[index]) return false;
    }
    return memory_extent(sizes, own, dim) == count && is_aligned(memory(), element_size(element_kind(dtype)));
  }

  const int64_t* strides() const {
    int64_t* strides = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(handle, &strides));
    return strides;
  }

  // Of the first value, wherever the others lie.
  void* memory() const {
    void* memory = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(handle, &memory));
    return memory;
  }
};

// Owns the list that the dispatcher hands to an op and the handles in it.
class TensorList {
 public:
  explicit TensorList(StableListHandle list) : TensorList(list, 0) {
    size_t size = 0;
    TORCH_ERROR_CODE_CHECK(torch_list_size(list_, &size));
    tensors_.reserve(size);
    for (size_t index = 0; index < size; ++index) {
      StableIValue value;
      TORCH_ERROR_CODE_CHECK(torch_list_get_item(list_, index, &value));
      tensors_.emplace_back().handle = torch::stable::detail::to<AtenTensorHandle>(value);
      tensors_.back() = facts_of(tensors_.back().handle);
    }
  }
  TensorList(const TensorList&) = delete;
  TensorList& operator=(const TensorList&) = delete;
  ~TensorList() {
    for (const TensorFacts& tensor : tensors_) aoti_torch_delete_tensor_object(tensor.handle);
    torch_delete_list(list_);
  }

  size_t size() const { return tensors_.size(); }
  bool empty() const { return tensors_.empty(); }
  const TensorFacts& operator[](size_t index) const { return tensors_[index]; }

  // A tensor of its own for an element, for the rare paths that need torch's operations.
  static Tensor tensor_of(const TensorFacts& facts) {
    AtenTensorHandle handle = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(facts.handle, &handle));
    return Tensor(handle);
  }

 private:
  // Whatever the public constructor throws, the list is complete from here on and is freed.
  TensorList(StableListHandle list, int) : list_(list) {}

  static TensorFacts facts_of(AtenTensorHandle handle) {
    TensorFacts facts{};
    facts.handle = handle;
    bool contiguous = false;
    int64_t* sizes = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_is_contiguous(handle, &contiguous));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(handle, &sizes));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(handle, &facts.dim));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(handle, &facts.dtype));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(handle, &facts.device_type));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(handle, &facts.device_index));
    facts.sizes = sizes;
    facts.count = 1;
    for (int64_t dim = 0; dim < facts.dim; ++dim) facts.count *= sizes[dim];
    int64_t extent = facts.count;
    if (contiguous) {
      facts.data = facts.memory();
      if (!is_aligned(facts.data, size_of(facts.dtype))) facts.data = nullptr;
    } else {
      extent = memory_extent(sizes, facts.strides(), facts.dim);
    }
    check_storage(handle, extent);
    return facts;
  }

  // Of the dtypes that ops take; 1 for others, which are refused later.
  static int64_t size_of(int32_t dtype) {
    const auto& codes = dtype_codes();
    const auto found = std::find(codes.begin(), codes.end(), dtype);
    return found == codes.end() ? 1 : element_size(static_cast<ElementKind>(found - codes.begin()));
  }

  StableListHandle list_;
  std::vector<TensorFacts> tensors_;
};

}  // namespace burnlike
