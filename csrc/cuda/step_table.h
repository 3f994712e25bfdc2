// The tensors of a launch of a step, as the kernel's argument.
#pragma once

#include <cstddef>
#include <cstdint>

#include "burnlike/step_lists.h"
#include "chunks.h"
#include "group_memory.h"

namespace burnlike::cuda {

// What a kernel knows of how a parameter, its gradient and its moments are stored.
enum class Stored : uint8_t { kAny, kFloat32, kBFloat16 };

template <Stored kStored>
BURNLIKE_INLINE constexpr Storage known(Storage storage) {
  if constexpr (kStored == Stored::kFloat32) return Storage::kFloat32;
  if constexpr (kStored == Stored::kBFloat16) return Storage::kBFloat16;
  return storage;
}

// 16 bytes of bfloat16, or of float32, which any kernel may meet.
template <Stored kStored>
using StepGroup = Group<kStored == Stored::kBFloat16 ? 8 : 4>;

// One tensor of a launch.
template <class Rule>
struct StepEntry {
  static constexpr int kPlaces = Rule::kStates > 0 ? Rule::kStates : 1;
  static constexpr int kScales = Rule::kCodedStates > 0 ? Rule::kCodedStates : 1;

  char* param;
  char* grad;
  char* copy;
  char* states[kPlaces];
  float* scales[kScales];  // null for a moment that is not in 8 bits
  int64_t count;
  int64_t time;
  typename Rule::Timed timed;
  int32_t index;  // in the list of the step
  Storage storage;
  Storage copy_storage;
  Storage state_storages[kPlaces];
  bool is_aligned;  // to pieces of groups, all of it
};

// What all tensors of a launch share.
template <class Rule, class Accumulate>
struct StepCommon {
  typename Rule::template Scalars<Accumulate> scalars;
  typename Rule::Arguments arguments;
  StepOptions options;
  int32_t tensor_count;
};

// At most `kBytes`.
template <class Rule, class Accumulate, size_t kBytes>
struct StepTable : StepCommon<Rule, Accumulate> {
  static constexpr int kMaxTensors = static_cast<int>(
      (kBytes - sizeof(StepCommon<Rule, Accumulate>) - 16) / (sizeof(StepEntry<Rule>) + sizeof(uint32_t)));

  StepEntry<Rule> entries[kMaxTensors];
  uint32_t chunk_ends[kMaxTensors];
};

}  // namespace burnlike::cuda
