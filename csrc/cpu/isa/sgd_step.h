// The kernels of a step of stochastic gradient descent: their bodies are in sgd_step.inl.
#pragma once

#include <cstdint>

#include "burnlike/sgd_step.h"
#include "kernel_table.h"
#include "step_memory.h"

namespace burnlike::cpu {

template <class Accumulate>
struct SgdKernels {
  void (*run)(const StepValues<Accumulate>&, const SgdScalars<Accumulate>&, Momentum, bool decays);
};

BURNLIKE_KERNELS(PerAccumulate<SgdKernels>, sgd_step_kernels)

}  // namespace burnlike::cpu
