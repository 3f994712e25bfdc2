// The kernels of what the steps of all optimizers share: their bodies are in step_memory.inl.
#pragma once

#include <cstdint>

#include "burnlike/blockwise.h"
#include "burnlike/random.h"
#include "burnlike/storage.h"
#include "kernel_table.h"

namespace burnlike::cpu {

// Some values of one parameter, in the type that is computed in; `states` are null for moments a rule goes without.
template <class Accumulate>
struct StepValues {
  Accumulate* p;
  const Accumulate* g;
  Accumulate* states[kMaxStates];
  int64_t count;
};

// How values are rounded to fewer bits: to nearest, or by chance. `block` is that of the first value.
struct Rounding {
  bool stochastic;
  uint32_t key;
  int64_t block;
};

// The ways from and to memory, for each storage. Values to load or store begin with a block of codes; `scales` are read
// and written for codes only.
template <class Accumulate>
struct StepMemoryKernels {
  void (*load[kStorages])(const void* source, const float* scales, Accumulate* values, int64_t count);
  void (*store[kStorages])(
      const Accumulate* values, void* target, float* scales, int64_t count, const Rounding& rounding);
};

BURNLIKE_KERNELS(PerAccumulate<StepMemoryKernels>, step_memory_kernels)

}  // namespace burnlike::cpu
