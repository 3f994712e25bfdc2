// A step of any rule over many tensors on the CPU: tiles, threads, and what is done beside the formula.
//
// A rule has `prepare(lists)`, which computes what needs more than a value, `scalars<Accumulate>(tensor, position,
// options)` for one parameter, and `run(values, scalars)`.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "burnlike/random.h"
#include "burnlike/step_lists.h"
#include "isa/step_memory.h"
#include "list_ranges.h"

namespace burnlike::cpu {

// Values that are loaded, computed and stored at a time: all of a tile stays in a core's first cache.
inline constexpr int64_t kTileValues = 4 * kBlock;

// Values of a tensor from a multiple of kBlock on.
inline char* at(const StepOperand& operand, int64_t index) {
  return static_cast<char*>(operand.data) + index * storage_size(operand.storage);
}

inline float* scales_at(const StepOperand& operand, int64_t index) {
  return operand.scales == nullptr ? nullptr : operand.scales + index / kBlock;
}

// Brings operands of other types into memory of a tile; those of the type that is computed in are used where they are.
template <class Accumulate>
class Tile {
 public:
  Tile(const StepTensor& tensor, const StepOptions& options) : tensor_(tensor), options_(options) {}

  StepValues<Accumulate> load(int64_t begin, int64_t count) {
    StepValues<Accumulate> values{};
    values.count = count;
    values.p = loaded(tensor_.param, begin, count, memory_[kMaxStates]);
    values.g = loaded(tensor_.grad, begin, count, memory_[kMaxStates + 1]);
    for (size_t state = 0; state < kMaxStates; ++state) {
      if (tensor_.states[state]) values.states[state] = loaded(tensor_.states[state], begin, count, memory_[state]);
    }
    return values;
  }

  void store(const StepValues<Accumulate>& values, int64_t begin) {
    for (size_t state = 0; state < kMaxStates; ++state) {
      if (tensor_.states[state]) {
        stored(tensor_.states[state], values.states[state], begin, values.count, static_cast<uint32_t>(state) + 1);
      }
    }
    stored(tensor_.param, values.p, begin, values.count, 0);
    if (tensor_.copy) {
      // A copy is of the weight as it was stored.
      const Accumulate* weight = loaded(tensor_.param, begin, values.count, memory_[kMaxStates]);
      const auto store_copy = kernels_.store[static_cast<size_t>(tensor_.copy.storage)];
      store_copy(weight, at(tensor_.copy, begin), nullptr, values.count, Rounding{});
    }
    if (options_.zero_grads) {
      std::memset(at(tensor_.grad, begin), 0, values.count * storage_size(tensor_.grad.storage));
    }
  }

 private:
  static bool is_in_place(const StepOperand& operand) { return operand.storage == storage_kind<Accumulate>; }

  Accumulate* loaded(const StepOperand& operand, int64_t begin, int64_t count, Accumulate* memory) const {
    if (is_in_place(operand)) return reinterpret_cast<Accumulate*>(at(operand, begin));
    const auto load_values = kernels_.load[static_cast<size_t>(operand.storage)];
    load_values(at(operand, begin), scales_at(operand, begin), memory, count);
    return memory;
  }

  void stored(
      const StepOperand& operand, const Accumulate* values, int64_t begin, int64_t count, uint32_t stream) const {
    if (is_in_place(operand)) return;
    Rounding rounding{options_.stochastic, 0, begin / kBlock};
    if (options_.stochastic) rounding.key = random_key(options_.seed, tensor_.index, stream);
    const auto store_values = kernels_.store[static_cast<size_t>(operand.storage)];
    store_values(values, at(operand, begin), scales_at(operand, begin), count, rounding);
  }

  const StepTensor& tensor_;
  const StepOptions& options_;
  const StepMemoryKernels<Accumulate>& kernels_ = step_memory_kernels()(Accumulate{});
  alignas(64) Accumulate memory_[kMaxStates + 2][kTileValues];
};

// Whether a tensor's step is nothing but its formula, over memory of the type that is computed in.
template <class Accumulate>
bool is_plain(const StepTensor& tensor, const StepOptions& options) {
  const auto is_in_place = [](const StepOperand& it) { return !it || it.storage == storage_kind<Accumulate>; };
  return !options.zero_grads && !tensor.copy && is_in_place(tensor.param) &&
         std::all_of(tensor.states.begin(), tensor.states.end(), is_in_place);
}

template <class Accumulate, class Rule>
void step_values(
    const StepTensor& tensor, size_t position, const StepOptions& options, const Rule& rule, int64_t begin,
    int64_t end) {
  const auto scalars = rule.template scalars<Accumulate>(tensor, position, options);
  if (is_plain<Accumulate>(tensor, options)) {
    StepValues<Accumulate> values{};
    values.count = end - begin;
    values.p = reinterpret_cast<Accumulate*>(at(tensor.param, begin));
    values.g = reinterpret_cast<const Accumulate*>(at(tensor.grad, begin));
    for (size_t state = 0; state < kMaxStates; ++state) {
      if (tensor.states[state]) values.states[state] = reinterpret_cast<Accumulate*>(at(tensor.states[state], begin));
    }
    rule.run(values, scalars);
    return;
  }
  Tile<Accumulate> tile(tensor, options);
  for (; begin < end; begin += kTileValues) {
    const StepValues<Accumulate> values = tile.load(begin, std::min(kTileValues, end - begin));
    rule.run(values, scalars);
    tile.store(values, begin);
  }
}

template <class Rule>
void run_step(StepLists& lists, Rule& rule) {
  if (lists.tensors().empty()) return;
  STD_TORCH_CHECK(lists.device_type() == aoti_torch_device_type_cpu(), "step: parameters are not on the CPU");
  const StepOptions& options = lists.options();
  const bool skips = options.skip != nullptr && *options.skip != 0.0f;
  if (skips && !options.zero_grads) return;
  ListRanges ranges(kBlock, lists.tensors().size());
  for (const StepTensor& tensor : lists.tensors()) ranges.add(tensor.count);
  if (!skips) rule.prepare(lists);
  ranges.run([&](size_t position, int64_t begin, int64_t end) {
    const StepTensor& tensor = lists.tensors()[position];
    if (skips) {
      std::memset(at(tensor.grad, begin), 0, (end - begin) * storage_size(tensor.grad.storage));
    } else if (tensor.param.storage == Storage::kFloat64) {
      step_values<double>(tensor, position, options, rule, begin, end);
    } else {
      step_values<float>(tensor, position, options, rule, begin, end);
    }
  });
  lists.copy_back();
}

}  // namespace burnlike::cpu
