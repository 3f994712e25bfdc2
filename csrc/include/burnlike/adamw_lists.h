// The tensor lists of an AdamW step as pointers, checked before anything is changed. For CPU and CUDA.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "adamw_step.h"
#include "tensors.h"

namespace burnlike {

// One parameter and what belongs to it. `max_moment_2` is null without amsgrad.
struct AdamwTensor {
  void* param;
  const void* grad;
  void* moment_1;
  void* moment_2;
  void* max_moment_2;
  int64_t count;
  int64_t time;
  ScalarType dtype;
  ScalarType moment_dtype;
  bool is_cpu;
  int32_t device_index;
};

// Calls `function` with values of the element types of a parameter and its moments.
template <class Function>
void with_adamw_types(const AdamwTensor& tensor, Function&& function) {
  with_element_type(tensor.dtype, [&](auto element) {
    using Element = decltype(element);
    if (tensor.moment_dtype == tensor.dtype) {
      function(element, element);
    } else if constexpr (sizeof(Element) == 2) {
      function(element, float{});
    }
  });
}

class AdamwLists {
 public:
  AdamwLists(
      const std::vector<Tensor>& params, const std::vector<Tensor>& grads, const std::vector<Tensor>& moments_1,
      const std::vector<Tensor>& moments_2, const std::vector<Tensor>& max_moments_2,
      const std::vector<int64_t>& times) {
    const size_t count = params.size();
    const bool amsgrad = !max_moments_2.empty();
    STD_TORCH_CHECK(
        grads.size() == count && moments_1.size() == count && moments_2.size() == count && times.size() == count &&
            (!amsgrad || max_moments_2.size() == count),
        "adamw_step_: lists of different lengths");
    for (size_t index = 0; index < count; ++index) {
      check(params[index], grads[index], moments_1[index], moments_2[index], times[index]);
      if (amsgrad) check_like(max_moments_2[index], params[index], moments_1[index].scalar_type());
    }
    tensors_.reserve(count);
    for (size_t index = 0; index < count; ++index) {
      AdamwTensor tensor;
      tensor.param = written(params[index]);
      tensor.grad = read(grads[index]);
      tensor.moment_1 = written(moments_1[index]);
      tensor.moment_2 = written(moments_2[index]);
      tensor.max_moment_2 = amsgrad ? written(max_moments_2[index]) : nullptr;
      tensor.count = params[index].numel();
      tensor.time = times[index];
      tensor.dtype = params[index].scalar_type();
      tensor.moment_dtype = moments_1[index].scalar_type();
      tensor.is_cpu = params[index].is_cpu();
      tensor.device_index = params[index].get_device_index();
      tensors_.push_back(tensor);
    }
  }

  const std::vector<AdamwTensor>& tensors() const { return tensors_; }

  // Puts what was computed in contiguous copies where it belongs.
  void copy_back() {
    for (auto& [original, copy] : copies_) torch::stable::copy_(original, copy);
  }

 private:
  static void check(
      const Tensor& param, const Tensor& grad, const Tensor& moment_1, const Tensor& moment_2, int64_t time) {
    const ScalarType dtype = param.scalar_type();
    const ScalarType moment_dtype = moment_1.scalar_type();
    with_element_type(dtype, [](auto) {});
    STD_TORCH_CHECK(
        moment_dtype == dtype ||
            (moment_dtype == ScalarType::Float && (dtype == ScalarType::BFloat16 || dtype == ScalarType::Half)),
        "adamw_step_: moments are neither of their parameter's dtype nor float32");
    STD_TORCH_CHECK(time >= 1, "adamw_step_: a time is less than 1");
    check_like(grad, param, dtype);
    check_like(moment_1, param, moment_dtype);
    check_like(moment_2, param, moment_dtype);
    check_writable(param);
    check_writable(moment_1);
    check_writable(moment_2);
  }

  static void check_like(const Tensor& tensor, const Tensor& param, ScalarType dtype) {
    STD_TORCH_CHECK(tensor.scalar_type() == dtype, "adamw_step_: a tensor is not of the dtype it should have");
    STD_TORCH_CHECK(
        tensor.is_cpu() == param.is_cpu() && tensor.get_device_index() == param.get_device_index(),
        "adamw_step_: a tensor is not on its parameter's device");
    const auto sizes = tensor.sizes();
    const auto param_sizes = param.sizes();
    STD_TORCH_CHECK(
        std::equal(sizes.begin(), sizes.end(), param_sizes.begin(), param_sizes.end()),
        "adamw_step_: a tensor does not have its parameter's shape");
  }

  static void check_writable(const Tensor& tensor) {
    if (tensor.is_contiguous()) return;
    for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
      STD_TORCH_CHECK(
          tensor.stride(dim) != 0 || tensor.size(dim) <= 1, "adamw_step_: a tensor to be written is expanded");
    }
  }

  const void* read(const Tensor& tensor) {
    if (tensor.is_contiguous()) return tensor.const_data_ptr();
    return kept_.emplace_back(torch::stable::contiguous(tensor)).const_data_ptr();
  }

  void* written(const Tensor& tensor) {
    if (tensor.is_contiguous()) return tensor.mutable_data_ptr();
    return copies_.emplace_back(tensor, torch::stable::contiguous(tensor)).second.mutable_data_ptr();
  }

  std::vector<AdamwTensor> tensors_;
  std::vector<Tensor> kept_;
  std::vector<std::pair<Tensor, Tensor>> copies_;
};

}  // namespace burnlike
