// The kernels of a step of Lion: their bodies are in lion_step.inl.
#pragma once

#include <cstdint>

#include "burnlike/lion_step.h"
#include "kernel_table.h"
#include "step_memory.h"

namespace burnlike::cpu {

template <class Accumulate>
struct LionKernels {
  void (*run)(const StepValues<Accumulate>&, const LionScalars<Accumulate>&);
};

BURNLIKE_KERNELS(PerAccumulate<LionKernels>, lion_step_kernels)

}  // namespace burnlike::cpu
