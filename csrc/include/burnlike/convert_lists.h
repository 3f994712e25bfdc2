// The tensor lists of a conversion as pointers, checked before anything is written. For CPU and CUDA.
#pragma once

#include <cstdint>
#include <vector>

#include "convert.h"
#include "tensor_list.h"

namespace burnlike {

// A run of values to convert, and where to note that one was lost.
struct Conversion {
  void* target;
  const void* source;
  int32_t* lost;
  int64_t count;
  ElementKind target_kind;
  ElementKind source_kind;
};

// Calls `function` with values of the element types of target and source.
template <class Function>
void with_conversion_types(ElementKind target_kind, ElementKind source_kind, Function&& function) {
  with_element_type(target_kind, [&](auto target) {
    with_element_type(source_kind, [&](auto source) { function(target, source); });
  });
}

class ConvertLists {
 public:
  ConvertLists(StableListHandle targets, StableListHandle sources, const Tensor& lost)
      : targets_(targets), sources_(sources) {
    STD_TORCH_CHECK(sources_.size() == targets_.size(), "convert_: lists of different lengths");
    check_lost(lost);
    for (size_t index = 0; index < targets_.size(); ++index) check(targets_[index], sources_[index]);
    if (!targets_.empty()) {
      int32_t device_type = 0;
      TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(lost.get(), &device_type));
      STD_TORCH_CHECK(
          device_type == device_type_of_all() && lost.get_device_index() == device_index(),
          "convert_: lost is not on the targets' device");
    }
    int32_t* flags = mutable_data_of<int32_t>(lost);
    conversions_.reserve(targets_.size());
    for (size_t index = 0; index < targets_.size(); ++index) {
      if (targets_[index].count > 0) conversions_.push_back(conversion_of(index, flags + index));
    }
  }

  // Those of tensors that have values.
  const std::vector<Conversion>& conversions() const { return conversions_; }

  // Where all tensors are, as the first one says.
  int32_t device_type_of_all() const { return targets_[0].device_type; }
  int32_t device_index() const { return targets_[0].device_index; }

 private:
  void check_lost(const Tensor& lost) const {
    int32_t dtype = 0;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(lost.get(), &dtype));
    STD_TORCH_CHECK(dtype == aoti_torch_dtype_int32(), "convert_: lost is not int32");
    STD_TORCH_CHECK(
        lost.dim() == 1 && lost.is_contiguous() && lost.size(0) == static_cast<int64_t>(targets_.size()),
        "convert_: lost does not have one value for each target");
  }

  void check(const TensorFacts& target, const TensorFacts& source) const {
    element_kind(target.dtype);
    element_kind(source.dtype);
    STD_TORCH_CHECK(target.same_shape(source), "convert_: a target does not have its source's shape");
    STD_TORCH_CHECK(
        target.data != nullptr || target.count == 0, "convert_: a target is not contiguous, or not aligned");
    STD_TORCH_CHECK(
        target.same_place(targets_[0]) && source.same_place(targets_[0]), "convert_: tensors on different devices");
  }

  Conversion conversion_of(size_t index, int32_t* lost) {
    const TensorFacts& source = sources_[index];
    const void* data = source.data;
    if (data == nullptr) {
      copies_.push_back(contiguous_copy(TensorList::tensor_of(source)));
      data = copies_.back().const_data_ptr();
    }
    const TensorFacts& target = targets_[index];
    return {target.data, data, lost, target.count, element_kind(target.dtype), element_kind(source.dtype)};
  }

  TensorList targets_;
  TensorList sources_;
  std::vector<Tensor> copies_;
  std::vector<Conversion> conversions_;
};

}  // namespace burnlike
