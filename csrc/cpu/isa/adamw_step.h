// The kernels of a step of AdamW: their bodies are in adamw_step.inl.
#pragma once

#include <cstdint>

#include "burnlike/adamw_step.h"
#include "kernel_table.h"
#include "step_memory.h"

namespace burnlike::cpu {

template <class Accumulate>
struct AdamwKernels {
  void (*run)(const StepValues<Accumulate>&, const AdamwScalars<Accumulate>&, Decay, bool amsgrad);
};

BURNLIKE_KERNELS(PerAccumulate<AdamwKernels>, adamw_step_kernels)

}  // namespace burnlike::cpu
