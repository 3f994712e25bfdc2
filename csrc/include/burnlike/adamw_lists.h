// The tensor lists of an AdamW step as pointers, checked before anything is changed. For CPU and CUDA.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "adamw_step.h"
#include "tensor_list.h"

namespace burnlike {

// One parameter and what belongs to it. `max_moment_2` is null without amsgrad.
struct AdamwTensor {
  void* param;
  const void* grad;
  void* moment_1;
  void* moment_2;
  void* max_moment_2;
  int64_t count;
  AdamwCorrections corrections;
  ElementKind kind;
  ElementKind moment_kind;
};

// Calls `function` with values of the element types of parameters and their moments: moments have their parameter's type,
// or float32 for the types of 16 bits.
template <class Function>
void with_adamw_types(ElementKind kind, ElementKind moment_kind, Function&& function) {
  with_element_type(kind, [&](auto element) {
    using Element = decltype(element);
    if (moment_kind == kind) {
      function(element, element);
    } else if constexpr (sizeof(Element) == 2) {
      function(element, float{});
    }
  });
}

class AdamwLists {
 public:
  AdamwLists(
      StableListHandle params, StableListHandle grads, StableListHandle moments_1, StableListHandle moments_2,
      StableListHandle max_moments_2, const std::vector<int64_t>& times, const AdamwArguments& arguments)
      : params_(params), grads_(grads), moments_1_(moments_1), moments_2_(moments_2), max_moments_2_(max_moments_2) {
    const size_t count = params_.size();
    const bool amsgrad = !max_moments_2_.empty();
    STD_TORCH_CHECK(
        grads_.size() == count && moments_1_.size() == count && moments_2_.size() == count && times.size() == count &&
            (!amsgrad || max_moments_2_.size() == count),
        "adamw_step_: lists of different lengths");
    tensors_.reserve(count);
    AdamwCorrections corrections{};
    for (size_t index = 0; index < count; ++index) {
      STD_TORCH_CHECK(times[index] >= 1, "adamw_step_: a time is less than 1");
      if (index == 0 || times[index] != times[index - 1]) corrections = adamw_corrections(arguments, times[index]);
      tensors_.push_back(checked(index, amsgrad, corrections));
    }
    for (size_t index = 0; index < count; ++index) fill(index, amsgrad);
  }

  const std::vector<AdamwTensor>& tensors() const { return tensors_; }

  bool amsgrad() const { return !max_moments_2_.empty(); }

  // Where all tensors are, as the first one says.
  int32_t device_type() const { return params_[0].device_type; }
  int32_t device_index() const { return params_[0].device_index; }

  // Puts what was computed in contiguous copies where it belongs.
  void copy_back() {
    for (auto& [original, copy] : copies_) torch::stable::copy_(original, copy);
  }

 private:
  AdamwTensor checked(size_t index, bool amsgrad, const AdamwCorrections& corrections) const {
    const TensorFacts& param = params_[index];
    const TensorFacts& moment = moments_1_[index];
    const ElementKind kind = element_kind(param.dtype);
    const ElementKind moment_kind = element_kind(moment.dtype);
    STD_TORCH_CHECK(
        moment_kind == kind || (moment_kind == ElementKind::kFloat32 && element_size(kind) == 2),
        "adamw_step_: moments are neither of their parameter's dtype nor float32");
    STD_TORCH_CHECK(param.same_place(params_[0]), "adamw_step_: parameters on different devices");
    check_like(grads_[index], param, param.dtype);
    check_like(moment, param, moment.dtype);
    check_like(moments_2_[index], param, moment.dtype);
    if (amsgrad) check_like(max_moments_2_[index], param, moment.dtype);
    for (const TensorFacts* written : {&param, &moment, &moments_2_[index]}) check_writable(*written);
    if (amsgrad) check_writable(max_moments_2_[index]);
    return {nullptr, nullptr, nullptr, nullptr, nullptr, param.count, corrections, kind, moment_kind};
  }

  static void check_like(const TensorFacts& tensor, const TensorFacts& param, int32_t dtype) {
    STD_TORCH_CHECK(tensor.dtype == dtype, "adamw_step_: a tensor is not of the dtype it should have");
    STD_TORCH_CHECK(tensor.same_place(param), "adamw_step_: a tensor is not on its parameter's device");
    STD_TORCH_CHECK(tensor.same_shape(param), "adamw_step_: a tensor does not have its parameter's shape");
  }

  static void check_writable(const TensorFacts& tensor) {
    if (tensor.data != nullptr || tensor.count == 0) return;
    int64_t* strides = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(tensor.handle, &strides));
    for (int64_t dim = 0; dim < tensor.dim; ++dim) {
      STD_TORCH_CHECK(
          strides[dim] != 0 || tensor.sizes[dim] == 1, "adamw_step_: a tensor to be written is expanded");
    }
  }

  void fill(size_t index, bool amsgrad) {
    AdamwTensor& tensor = tensors_[index];
    if (tensor.count == 0) return;
    tensor.param = written(params_[index]);
    tensor.grad = read(grads_[index]);
    tensor.moment_1 = written(moments_1_[index]);
    tensor.moment_2 = written(moments_2_[index]);
    if (amsgrad) tensor.max_moment_2 = written(max_moments_2_[index]);
  }

  const void* read(const TensorFacts& tensor) {
    if (tensor.data != nullptr) return tensor.data;
    return kept_.emplace_back(torch::stable::contiguous(TensorList::tensor_of(tensor))).const_data_ptr();
  }

  void* written(const TensorFacts& tensor) {
    if (tensor.data != nullptr) return tensor.data;
    const Tensor original = TensorList::tensor_of(tensor);
    return copies_.emplace_back(original, torch::stable::contiguous(original)).second.mutable_data_ptr();
  }

  TensorList params_;
  TensorList grads_;
  TensorList moments_1_;
  TensorList moments_2_;
  TensorList max_moments_2_;
  std::vector<AdamwTensor> tensors_;
  std::vector<Tensor> kept_;
  std::vector<std::pair<Tensor, Tensor>> copies_;
};

}  // namespace burnlike
