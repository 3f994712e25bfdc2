// The tensor lists of a step of any rule as pointers, checked before anything is changed. For CPU and CUDA.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "blockwise.h"
#include "state_walk.h"
#include "step_options.h"
#include "storage.h"
#include "tensor_list.h"

namespace burnlike {

// The values of a tensor, or none if `data` is null. `scales` has one for each kBlock codes.
struct StepOperand {
  void* data = nullptr;
  float* scales = nullptr;
  Storage storage = Storage::kFloat32;

  explicit operator bool() const { return data != nullptr; }
};

// One parameter and what belongs to it.
struct StepTensor {
  StepOperand param;
  StepOperand grad;  // of the parameter's storage
  StepOperand copy;
  std::array<StepOperand, kMaxStates> states;
  int64_t count;
  int64_t index;  // its place in the list
  int64_t time;   // 1 where the rule has no use for it
};

// One list of moments as an op gets it. It has codes if `scales` is given.
struct StateArgument {
  StableListHandle tensors;
  std::optional<StableListHandle> scales;
  Storage codes;
  bool is_optional;
};

// The options as an op gets them.
struct OptionArguments {
  double grad_scale;
  const std::optional<Tensor>& factors;
  double clip_value;
  const std::optional<Tensor>& skip;
  const std::optional<Tensor>& skipped;
  StableListHandle copies;
  bool zero_grads;
  std::optional<int64_t> seed;
};

// Owns the lists of a step. `times` is null where the rule has no use for them.
class StepLists {
 public:
  StepLists(
      StableListHandle params, StableListHandle grads, const std::vector<StateArgument>& states,
      const std::vector<int64_t>* times, const OptionArguments& options)
      : params_(params), grads_(grads), copies_(options.copies), writes_grads_(options.zero_grads) {
    for (const StateArgument& state : states) lists_.emplace_back(state);
    const size_t count = params_.size();
    STD_TORCH_CHECK(
        grads_.size() == count && (times == nullptr || times->size() == count) &&
            (copies_.empty() || copies_.size() == count),
        "step: lists of different lengths");
    std::vector<std::array<Part, kMaxStates>> parts(count);
    for (size_t index = 0; index < count; ++index) {
      const TensorFacts& param = params_[index];
      for (size_t list = 0; list < lists_.size(); ++list) parts[index][list] = lists_[list].next(param);
      check(index, parts[index]);
      STD_TORCH_CHECK(times == nullptr || (*times)[index] >= 1, "step: a time is less than 1");
    }
    for (const StateList& list : lists_) STD_TORCH_CHECK(list.at_end(), "step: lists of different lengths");
    read_options(options);
    tensors_.reserve(count);
    for (size_t index = 0; index < count; ++index) {
      if (params_[index].count == 0) continue;
      tensors_.push_back(tensor_of(index, parts[index], times == nullptr ? 1 : (*times)[index]));
    }
  }

  // The parameters that have values.
  const std::vector<StepTensor>& tensors() const { return tensors_; }
  const StepOptions& options() const { return options_; }

  // Whether a list of moments was given.
  bool has_states(size_t list) const { return !lists_[list].tensors.empty(); }

  // Where all tensors are, as the first one says.
  int32_t device_type() const { return params_[0].device_type; }
  int32_t device_index() const { return params_[0].device_index; }

  // Puts what was computed in contiguous copies where it belongs.
  void copy_back() {
    for (auto& [original, copy] : written_copies_) torch::stable::copy_(original, copy);
  }

 private:
  struct Part {
    StateWalk::Place place{};
    const TensorFacts* scales = nullptr;
  };

  struct StateList {
    explicit StateList(const StateArgument& argument)
        : tensors(argument.tensors), codes(argument.codes), is_absent(argument.is_optional && tensors.empty()) {
      if (argument.scales) scales.emplace(*argument.scales);
    }

    Part next(const TensorFacts& param) {
      if (is_absent) return {};
      Part part{walk.next(param), nullptr};
      const Storage storage = storage_of(part.place.tensor->dtype);
      if (is_coded(storage)) {
        STD_TORCH_CHECK(storage == codes && scales && next_scales < scales->size(), "step: codes without scales");
        part.scales = &(*scales)[next_scales++];
      }
      return part;
    }

    bool at_end() const { return (is_absent || walk.at_end()) && (!scales || next_scales == scales->size()); }

    TensorList tensors;
    std::optional<TensorList> scales;
    Storage codes;
    bool is_absent;
    StateWalk walk{tensors};
    size_t next_scales = 0;
  };

  void check(size_t index, const std::array<Part, kMaxStates>& parts) const {
    const TensorFacts& param = params_[index];
    const TensorFacts& grad = grads_[index];
    const ElementKind kind = element_kind(param.dtype);
    STD_TORCH_CHECK(grad.dtype == param.dtype, "step: a gradient is not of its parameter's dtype");
    check_like(param, params_[0], param);
    check_like(grad, param, param, writes_grads_);
    if (!copies_.empty()) {
      check_like(copies_[index], param, param);
      STD_TORCH_CHECK(element_kind(copies_[index].dtype) != ElementKind::kFloat64, "step: a copy is float64");
    }
    for (const Part& part : parts) {
      if (part.place.tensor == nullptr) continue;
      const TensorFacts& state = *part.place.tensor;
      const Storage storage = storage_of(state.dtype);
      STD_TORCH_CHECK(
          storage == static_cast<Storage>(kind) || storage == Storage::kFloat32 || storage == Storage::kBFloat16 ||
              is_coded(storage),
          "step: a moment is not of a dtype that fits its parameter");
      STD_TORCH_CHECK(state.same_place(param), "step: a moment is not on its parameter's device");
      check_writable(state);
      if (part.scales == nullptr) continue;
      STD_TORCH_CHECK(
          part.scales->dtype == aoti_torch_dtype_float32() && part.scales->same_place(param) && part.scales->dim == 1 &&
              part.scales->count == block_count(param.count) && (part.scales->data != nullptr || param.count == 0),
          "step: scales do not fit their moment");
    }
  }

  static void check_like(
      const TensorFacts& tensor, const TensorFacts& neighbour, const TensorFacts& shape, bool is_written = true) {
    STD_TORCH_CHECK(tensor.same_place(neighbour), "step: tensors on different devices");
    STD_TORCH_CHECK(tensor.same_shape(shape), "step: a tensor does not have its parameter's shape");
    if (is_written) check_writable(tensor);
  }

  static void check_writable(const TensorFacts& tensor) {
    if (tensor.data != nullptr || tensor.count == 0) return;
    const int64_t* strides = tensor.strides();
    // Each dimension, from the one with the smallest steps on, steps over all of those before.
    std::vector<std::pair<int64_t, int64_t>> dims;
    for (int64_t dim = 0; dim < tensor.dim; ++dim) {
      if (tensor.sizes[dim] > 1) dims.emplace_back(strides[dim], tensor.sizes[dim]);
    }
    std::sort(dims.begin(), dims.end());
    int64_t extent = 1;
    for (const auto& [stride, size] : dims) {
      STD_TORCH_CHECK(stride >= extent, "step: values of a tensor to be written share memory");
      extent += (size - 1) * stride;
    }
  }

  void read_options(const OptionArguments& arguments) {
    STD_TORCH_CHECK(arguments.clip_value >= 0, "step: clip_value is negative");
    options_ = {
        arguments.grad_scale,
        on_device<double>(arguments.factors, static_cast<int64_t>(params_.size())),
        arguments.factors && arguments.factors->numel() > 1 ? 1 : 0,
        arguments.clip_value,
        on_device<float>(arguments.skip, 1),
        on_device<double>(arguments.skipped, 1),
        arguments.zero_grads,
        arguments.seed.has_value(),
        static_cast<uint64_t>(arguments.seed.value_or(0))};
  }

  // The values of a tensor of one or `count` of them, or null if there is none.
  template <class Element>
  const Element* on_device(const std::optional<Tensor>& tensor, int64_t count) const {
    if (!tensor || params_.empty()) return nullptr;
    int32_t device_type = 0;
    int32_t dtype = 0;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor->get(), &device_type));
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor->get(), &dtype));
    STD_TORCH_CHECK(
        dtype == dtype_code(kind_of<Element>) && tensor->dim() <= 1 && tensor->is_contiguous() &&
            (tensor->numel() == 1 || (tensor->dim() == 1 && tensor->numel() == count)) &&
            device_type == params_[0].device_type && tensor->get_device_index() == params_[0].device_index,
        "step: an option does not have the dtype, the shape or the device that it should have");
    return data_of<Element>(*tensor);
  }

  StepTensor tensor_of(size_t index, const std::array<Part, kMaxStates>& parts, int64_t time) {
    StepTensor tensor{};
    tensor.count = params_[index].count;
    tensor.index = static_cast<int64_t>(index);
    tensor.time = time;
    const bool as_it_lies = lie_alike(index, parts);
    const auto operand = [&](const StateWalk::Place& place) { return as_it_lies ? lying(place) : written(place); };
    tensor.param = operand({&params_[index], 0});
    tensor.grad = as_it_lies || writes_grads_ ? operand({&grads_[index], 0}) : read(grads_[index]);
    if (!copies_.empty()) tensor.copy = operand({&copies_[index], 0});
    for (size_t list = 0; list < lists_.size(); ++list) {
      const Part& part = parts[list];
      if (part.place.tensor == nullptr) continue;
      tensor.states[list] = operand(part.place);
      if (part.scales != nullptr) tensor.states[list].scales = static_cast<float*>(part.scales->data);
    }
    return tensor;
  }

  // Whether a parameter that is not contiguous, as in channels_last, and all that belongs to it lie in memory without
  // gaps and in one order. Then values are taken in the order of memory, without copies: the formula sees each alone.
  // Rounding by chance goes by a value's place, and codes by blocks of places, which count in the order of dimensions.
  bool lie_alike(size_t index, const std::array<Part, kMaxStates>& parts) const {
    const TensorFacts& param = params_[index];
    if (param.data != nullptr || options_.stochastic || !grads_[index].lies_as(param)) return false;
    if (!copies_.empty() && !copies_[index].lies_as(param)) return false;
    for (const Part& part : parts) {
      if (part.place.tensor == nullptr) continue;
      if (part.scales != nullptr || part.place.offset != 0 || !part.place.tensor->lies_as(param)) return false;
    }
    return param.lies_as(param);
  }

  static StepOperand lying(const StateWalk::Place& place) {
    return {place.tensor->memory(), nullptr, storage_of(place.tensor->dtype)};
  }

  StepOperand read(const TensorFacts& tensor) {
    const Storage storage = storage_of(tensor.dtype);
    if (tensor.data != nullptr) return {tensor.data, nullptr, storage};
    const Tensor& copy = read_copies_.emplace_back(contiguous_copy(TensorList::tensor_of(tensor)));
    return {copy.mutable_data_ptr(), nullptr, storage};
  }

  StepOperand written(const StateWalk::Place& place) {
    const Storage storage = storage_of(place.tensor->dtype);
    if (place.tensor->data != nullptr) {
      return {static_cast<char*>(place.tensor->data) + place.offset * storage_size(storage), nullptr, storage};
    }
    const Tensor original = TensorList::tensor_of(*place.tensor);
    const Tensor& copy = written_copies_.emplace_back(original, contiguous_copy(original)).second;
    return {copy.mutable_data_ptr(), nullptr, storage};
  }

  TensorList params_;
  TensorList grads_;
  TensorList copies_;
  std::deque<StateList> lists_;  // which are not moved
  bool writes_grads_;
  StepOptions options_{};
  std::vector<StepTensor> tensors_;
  std::vector<Tensor> read_copies_;
  std::vector<std::pair<Tensor, Tensor>> written_copies_;
};

}  // namespace burnlike
