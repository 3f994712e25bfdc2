// Launches the kernels of a step over the tensors of its lists.
#pragma once

#include <algorithm>
#include <cstdint>

#include "burnlike/step_lists.h"
#include "launch.h"
#include "step_kernel.h"
#include "step_table.h"

namespace burnlike::cuda {

// Collects tensors of one kernel and launches whenever the table is full.
template <class Rule, class Accumulate, Stored kStored>
class StepLauncher {
 public:
  StepLauncher(const StepOptions& options, const typename Rule::Arguments& arguments, cudaStream_t stream)
      : stream_(stream) {
    const GradientScalars<Accumulate> gradient{1, static_cast<Accumulate>(options.clip_value)};
    table_.scalars = Rule::template scalars<Accumulate>(arguments, gradient);
    table_.arguments = arguments;
    table_.options = options;
    table_.tensor_count = 0;
  }

  // Whether the kernel is for a tensor that is stored like that.
  static bool takes(const StepTensor& tensor) {
    const auto fits = [](const StepOperand& operand) { return operand.storage == known<kStored>(operand.storage); };
    return fits(tensor.param) && std::all_of(tensor.states.begin(), tensor.states.begin() + Rule::kStates, fits) &&
           (kStored == Stored::kAny || is_aligned(tensor));
  }

  void add(const StepTensor& tensor) {
    if (table_.tensor_count == table_.kMaxTensors) launch_all();
    // Powers take longer than the rest, and most tensors have the same time.
    if (tensor.time != time_) timed_ = Rule::timed(table_.arguments, static_cast<double>(tensor.time));
    time_ = tensor.time;
    table_.entries[table_.tensor_count] = entry_of(tensor);
    chunks_ += chunk_count(tensor.count);
    table_.chunk_ends[table_.tensor_count] = chunks_;
    ++table_.tensor_count;
  }

  void launch_all() {
    // Kernels of mixed storages are large: they have but one table, for the sake of compile time and memory.
    if constexpr (kStored != Stored::kAny) {
      if (table_.tensor_count <= SmallTable::kMaxTensors) {
        launch_table(small_table());
        return clear();
      }
    }
    launch_table(table_);
    clear();
  }

 private:
  using SmallTable = StepTable<Rule, Accumulate, kFewArgumentBytes>;
  using LargeTable = StepTable<Rule, Accumulate, kMaxArgumentBytes>;

  StepEntry<Rule> entry_of(const StepTensor& tensor) const {
    StepEntry<Rule> entry{};
    entry.param = static_cast<char*>(tensor.param.data);
    entry.grad = static_cast<char*>(tensor.grad.data);
    entry.copy = static_cast<char*>(tensor.copy.data);
    entry.count = tensor.count;
    entry.time = tensor.time;
    entry.timed = timed_;
    entry.index = static_cast<int32_t>(tensor.index);
    entry.storage = tensor.param.storage;
    entry.copy_storage = tensor.copy.storage;
    entry.is_aligned = is_aligned(tensor);
    for (int state = 0; state < Rule::kStates; ++state) {
      const StepOperand& operand = tensor.states[state];
      entry.states[state] = static_cast<char*>(operand.data);
      if (state < Rule::kCodedStates) entry.scales[state] = operand.scales;
      entry.state_storages[state] = operand.storage;
    }
    return entry;
  }

  static bool is_aligned(const StepTensor& tensor) {
    // A piece is read as one, or as several of 16 bytes.
    const auto is_aligned_operand = [](const StepOperand& operand) {
      const int64_t piece = std::min<int64_t>(16, StepGroup<kStored>::kPiece * storage_size(operand.storage));
      return reinterpret_cast<uintptr_t>(operand.data) % piece == 0;
    };
    return is_aligned_operand(tensor.param) && is_aligned_operand(tensor.grad) && is_aligned_operand(tensor.copy) &&
           std::all_of(tensor.states.begin(), tensor.states.begin() + Rule::kStates, is_aligned_operand);
  }

  SmallTable small_table() const {
    SmallTable table;
    static_cast<StepCommon<Rule, Accumulate>&>(table) = table_;
    std::copy_n(table_.entries, table_.tensor_count, table.entries);
    std::copy_n(table_.chunk_ends, table_.tensor_count, table.chunk_ends);
    return table;
  }

  void clear() {
    chunks_ = 0;
    table_.tensor_count = 0;
  }

  template <size_t kTableBytes>
  void launch_table(const StepTable<Rule, Accumulate, kTableBytes>& table) const {
    if (chunks_ > 0) launch(step_kernel<Rule, Accumulate, kStored, kTableBytes>, chunks_, kStepThreads, stream_, table);
  }

  LargeTable table_;
  cudaStream_t stream_;
  uint32_t chunks_ = 0;
  int64_t time_ = 0;
  typename Rule::Timed timed_{};
};

template <class Rule>
void run_step(StepLists& lists, const typename Rule::Arguments& arguments) {
  if (lists.tensors().empty()) return;
  STD_TORCH_CHECK(lists.device_type() == aoti_torch_device_type_cuda(), "step: parameters are not on CUDA");
  const DeviceScope scope(lists.device_index());
  StepLauncher<Rule, float, Stored::kFloat32> float_steps(lists.options(), arguments, scope.stream());
  StepLauncher<Rule, float, Stored::kBFloat16> bfloat16_steps(lists.options(), arguments, scope.stream());
  StepLauncher<Rule, float, Stored::kAny> mixed_steps(lists.options(), arguments, scope.stream());
  StepLauncher<Rule, double, Stored::kAny> double_steps(lists.options(), arguments, scope.stream());
  for (const StepTensor& tensor : lists.tensors()) {
    if (tensor.param.storage == Storage::kFloat64) {
      double_steps.add(tensor);
    } else if (float_steps.takes(tensor)) {
      float_steps.add(tensor);
    } else if (bfloat16_steps.takes(tensor)) {
      bfloat16_steps.add(tensor);
    } else {
      mixed_steps.add(tensor);
    }
  }
  float_steps.launch_all();
  bfloat16_steps.launch_all();
  mixed_steps.launch_all();
  double_steps.launch_all();
  lists.copy_back();
}

}  // namespace burnlike::cuda
