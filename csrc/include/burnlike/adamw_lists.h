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

// Calls `function` with values of the element types of a parameter and its moments, which are the same, or float32
// moments of a parameter of 16 bits.
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

// Walks a list of moments beside the parameters. An element has the shape of one parameter, or is flat and holds the
// moments of several parameters in a row, end to end: with many small parameters, fewer tensors are handed over.
class MomentWalk {
 public:
  struct Place {
    const TensorFacts* tensor;
    int64_t offset;
  };

  explicit MomentWalk(const TensorList& list) : list_(list) {}

  Place next(const TensorFacts& param) {
    STD_TORCH_CHECK(index_ < list_.size(), "adamw_step_: lists of different lengths");
    const TensorFacts& tensor = list_[index_];
    const Place place{&tensor, offset_};
    if (offset_ == 0 && tensor.same_shape(param)) {
      ++index_;
      return place;
    }
    offset_ += param.count;
    STD_TORCH_CHECK(
        tensor.dim == 1 && tensor.data != nullptr && offset_ <= tensor.count,
        "adamw_step_: a moment has neither its parameter's shape nor is it a flat tensor of several");
    if (offset_ == tensor.count) {
      ++index_;
      offset_ = 0;
    }
    return place;
  }

  bool at_end() const { return index_ == list_.size() && offset_ == 0; }

 private:
  const TensorList& list_;
  size_t index_ = 0;
  int64_t offset_ = 0;
};

class AdamwLists {
 public:
  AdamwLists(
      StableListHandle params, StableListHandle grads, StableListHandle moments_1, StableListHandle moments_2,
      StableListHandle max_moments_2, const std::vector<int64_t>& times, const AdamwArguments& arguments)
      : params_(params), grads_(grads), moments_1_(moments_1), moments_2_(moments_2), max_moments_2_(max_moments_2) {
    const size_t count = params_.size();
    STD_TORCH_CHECK(grads_.size() == count && times.size() == count, "adamw_step_: lists of different lengths");
    std::vector<Parts> parts;
    parts.reserve(count);
    MomentWalk first(moments_1_);
    MomentWalk second(moments_2_);
    MomentWalk largest(max_moments_2_);
    for (size_t index = 0; index < count; ++index) {
      const TensorFacts& param = params_[index];
      parts.push_back({first.next(param), second.next(param), amsgrad() ? largest.next(param) : MomentWalk::Place{}});
      check(param, grads_[index], parts.back(), times[index]);
    }
    STD_TORCH_CHECK(
        first.at_end() && second.at_end() && largest.at_end(), "adamw_step_: lists of different lengths");

    tensors_.reserve(count);
    AdamwCorrections corrections{};
    for (size_t index = 0; index < count; ++index) {
      if (index == 0 || times[index] != times[index - 1]) corrections = adamw_corrections(arguments, times[index]);
      if (params_[index].count == 0) continue;
      tensors_.push_back(tensor_of(params_[index], grads_[index], parts[index], corrections));
    }
  }

  // The parameters that have values.
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
  struct Parts {
    MomentWalk::Place moment_1;
    MomentWalk::Place moment_2;
    MomentWalk::Place max_moment_2;
  };

  void check(const TensorFacts& param, const TensorFacts& grad, const Parts& parts, int64_t time) const {
    const ElementKind kind = element_kind(param.dtype);
    const ElementKind moment_kind = element_kind(parts.moment_1.tensor->dtype);
    STD_TORCH_CHECK(
        moment_kind == kind || (moment_kind == ElementKind::kFloat32 && element_size(kind) == 2),
        "adamw_step_: moments are neither of their parameter's dtype nor float32");
    STD_TORCH_CHECK(time >= 1, "adamw_step_: a time is less than 1");
    STD_TORCH_CHECK(param.same_place(params_[0]), "adamw_step_: parameters on different devices");
    STD_TORCH_CHECK(grad.same_shape(param), "adamw_step_: a gradient does not have its parameter's shape");
    check_like(grad, param, param.dtype);
    check_writable(param);
    for (const MomentWalk::Place& moment : {parts.moment_1, parts.moment_2, parts.max_moment_2}) {
      if (moment.tensor == nullptr) continue;
      check_like(*moment.tensor, param, parts.moment_1.tensor->dtype);
      check_writable(*moment.tensor);
    }
  }

  static void check_like(const TensorFacts& tensor, const TensorFacts& param, int32_t dtype) {
    STD_TORCH_CHECK(tensor.dtype == dtype, "adamw_step_: a tensor is not of the dtype it should have");
    STD_TORCH_CHECK(tensor.same_place(param), "adamw_step_: a tensor is not on its parameter's device");
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

  AdamwTensor tensor_of(
      const TensorFacts& param, const TensorFacts& grad, const Parts& parts, const AdamwCorrections& corrections) {
    const ElementKind moment_kind = element_kind(parts.moment_1.tensor->dtype);
    return {
        written({&param, 0}, 0),
        read(grad),
        written(parts.moment_1, element_size(moment_kind)),
        written(parts.moment_2, element_size(moment_kind)),
        parts.max_moment_2.tensor == nullptr ? nullptr : written(parts.max_moment_2, element_size(moment_kind)),
        param.count,
        corrections,
        element_kind(param.dtype),
        moment_kind};
  }

  const void* read(const TensorFacts& tensor) {
    if (tensor.data != nullptr) return tensor.data;
    return kept_.emplace_back(torch::stable::contiguous(TensorList::tensor_of(tensor))).const_data_ptr();
  }

  void* written(const MomentWalk::Place& place, int64_t element_bytes) {
    if (place.tensor->data != nullptr) return static_cast<char*>(place.tensor->data) + place.offset * element_bytes;
    const Tensor original = TensorList::tensor_of(*place.tensor);
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
